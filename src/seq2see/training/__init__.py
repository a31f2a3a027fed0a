"""How a model learns: objectives, optimizers, schedules, the loop, and checkpoints that survive a kill."""
