"""How a model acts: chat format, engine, rollout; the tiny model and its warm start."""
