"""Programs that join the stages: the smoke test of a machine, the stages of a long experiment and its page."""
