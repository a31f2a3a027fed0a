"""How a model learns: objectives, optimisers, schedules, the loop, and checkpoints that survive a kill."""
