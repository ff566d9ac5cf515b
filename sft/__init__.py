"""Supervised fine-tuning on expert trajectories: rows from what the simulator recorded, TRL's SFTTrainer on the rows.

Run it with ``python -m sft configs/sft_probes.yaml``.
"""
