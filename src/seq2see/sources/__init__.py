"""Where examples come from: strict readers that account for every record, and corpora."""
