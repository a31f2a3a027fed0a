"""What every other folder speaks: settings and errors, batches of sequences, rows, seeds, devices."""
