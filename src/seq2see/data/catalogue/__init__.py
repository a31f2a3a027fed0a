"""Real corpora with their public home, license and hashes: downloading, verifying and reading them."""
