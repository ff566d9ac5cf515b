"""Evaluation: freeze the rules, play every arm on the same probes and sessions, score, report.

    python -m eval freeze configs/eval_scripted.yaml
    python -m eval run    configs/eval_scripted.yaml
    python -m eval score  configs/eval_scripted.yaml
    python -m eval report configs/eval_scripted.yaml
    python -m eval replay configs/eval_scripted.yaml

    python -m eval run --sessions my_sessions.jsonl --arm base --model smollm2

Each step is a function of an ``EvalConfig`` as well: ``from eval.run import run``.
"""
