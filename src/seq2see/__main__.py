"""`python -m seq2see` is the command `seq2see`, for whoever has it in no folder that is searched for programs."""

from seq2see.cli import main

main()
