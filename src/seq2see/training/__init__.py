"""Training: objectives, optimizers, schedules, the loop, and checkpoints that survive a kill at any moment."""
