"""Reinforcement learning: GRPO over episodes whose context is rewritten, on stock TRL.

    python -m rl configs/rl_probes.yaml
    python -m rl configs/rl_probes.yaml steps=40 trainer.learning_rate=2e-6
    python -m rl curve runs/rl-probes

One episode is several append-only segments (a rewrite of the view starts a new one) and has one reward:

    config.py       the schema of a run, and which trainer settings this stage decides itself
    ablation.py     what can be changed for an experiment, each by its name
    probes.py       probes and full sessions as tasks: loading, start, outcome
    curriculum.py   which tasks come at which step
    sampling.py     turns and their log-probabilities
    rollout.py      episodes of a batch played in lock-step, cut into segments
    rows.py         segments as training rows: fillers, equal chunks, trimmed padding
    packing.py      rows that begin alike, computed as one tree
    gaps.py         log-probabilities of sampling against those of training
    outcome.py      what the trainer keeps of a scored episode; advantages and metrics of a batch
    contract.py     what the subclass relies on in TRL
    passes.py       the training pass of the GRPOTrainer subclass
    trainer.py      the subclass: rollouts, advantages, chunks, validation
    clock.py        where the time of a step goes
    validation.py   metrics of a validation, and a line a probe
    best.py         the weights that did best in validation
    weights.py      start model, adapter, final and best model
    callbacks.py    metrics file, tracker, progress bar, checkpoints that are known to be whole
    resume.py       the newest whole checkpoint, and what a resumed run must keep
    run.py          one run folder from config to final model; the same command resumes
    curve.py        curves of runs, and the paired difference against step 0
"""
