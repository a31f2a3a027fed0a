"""`python -m seq2see` runs the command `seq2see`, if its folder is not on the search path."""

from seq2see.cli import main

main()
