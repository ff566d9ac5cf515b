"""The seed suites: the experiments that this project starts from, playable by any arm, judged mechanically.

    python -m eval suites --list
    python -m eval suites --suite seed_three_turn --arm pass --lang both

From Python::

    from eval.config import Arm
    from eval.suites import SUITES, SuiteSettings, run_suite

    arm = Arm(policy="hf", model="smollm2", profile="plain@1", manager="layered")
    results = run_suite(SUITES["seed_address"], "en", "mine", arm, SuiteSettings())
    print(results[0].core, results[0].tokens)
"""

from eval.suites import bench28, layered, mapping, mechanism, three_turn, windows  # noqa: F401 (each module registers its suites)
from eval.suites.base import LANGS, SUITES, Item, Lang, Result, Row, Rule, Suite
from eval.suites.play import SuiteSettings, run_suite

_ORDER = ("seed_mapping", "seed_three_turn", "seed_alpha_beta", "seed_sentinel", "seed_mechanism", "seed_bench28")
for _name in (*_ORDER, *(n for n in list(SUITES) if n not in _ORDER)):
    SUITES[_name] = SUITES.pop(_name)  # as the documents tell them

__all__ = ["LANGS", "SUITES", "Item", "Lang", "Result", "Row", "Rule", "Suite", "SuiteSettings", "run_suite"]
