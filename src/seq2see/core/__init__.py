"""The base of all other packages: settings, errors, batches, decoder states, seeds, devices, files."""
