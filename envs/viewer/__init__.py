"""One page for stored episodes, whoever made them: log and view side by side, inference by inference, in one file that opens offline.

``write_page((Sample(trajectory, {"arm": "sft"}, score) for …), "episodes.html", title="Episodes")``
"""

from envs.viewer.blocks import DamagedError
from envs.viewer.page import Sample, page, read_page, views_of, write_page

__all__ = ["DamagedError", "Sample", "page", "read_page", "views_of", "write_page"]
