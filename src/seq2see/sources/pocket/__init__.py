"""pocket: a small bilingual world, written as a synchronous grammar of Chinese and English.

A *meaning* is drawn once; every language puts it into words by itself and says of each word which part of
the meaning it expresses. Two words that express the same part are aligned: the gold alignment costs
nothing and cannot be wrong.

Read in this order: `concepts.py` (what there is in this world), `lexicon_zh.py` and `lexicon_en.py` (what it
is called), `meaning.py` (a sentence without words), `chinese.py` and `english.py` (how it is said),
`pairing.py` (a pair with its alignment), `draw_*.py` (things, deeds, turns, clauses: meanings at random),
`splits.py` (what may be seen in training and what may not), `corpus.py` (the settings).

**A third language** is one more module with a `Language`:

1. a lexicon: a word for each concept of `concepts.py` (write it as a table, like `lexicon_zh.py`);
2. rules: `say(meaning)` gives the words in order, each as `Word(text, tag, node, also)`. `node` is the path
   of the part of the meaning that the word expresses (`object`, `object.owner`, `verb`, `verb.not`, ...;
   the whole list stands in `meaning.py`), `also` the paths that it helps to express;
3. `spell(words)`: how the words are written in a line (with spaces or without);
4. one line in `LANGUAGES` and one word in `Code`, both in `pairing.py`.

Nothing else changes: drawing, splits and alignments never look at words. Check that your translation is
a function in both directions, as the tests do for Chinese and English.
"""
