"""Reinforcement learning: GRPO over episodes whose context is rewritten, on stock TRL.

    python -m rl configs/rl_probes.yaml
    python -m rl configs/rl_probes.yaml steps=40 trainer.learning_rate=2e-6

One episode is several append-only segments (a rewrite of the view starts a new one) and has one reward:

    config.py       the schema of a run, and which trainer settings this stage decides itself
    probes.py       probes as tasks: loading, order over a run, start, outcome
    sampling.py     turns and their log-probabilities
    rollout.py      episodes of a batch played in lock-step, cut into segments
    rows.py         segments as training rows: fillers, equal chunks, trimmed padding
    packing.py      rows that begin alike, computed as one tree
    gaps.py         log-probabilities of sampling against those of training
    outcome.py      what the trainer keeps of a scored episode; advantages and metrics of a batch
    contract.py     what the subclass relies on in TRL
    trainer.py      the GRPOTrainer subclass
    callbacks.py    metrics file, tracker, progress bar, checkpoints that are known to be whole
    resume.py       the newest whole checkpoint, and what a resumed run must keep
    run.py          one run folder from config to final model; the same command resumes
"""
