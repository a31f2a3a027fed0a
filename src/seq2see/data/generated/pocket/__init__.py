"""pocket: a small bilingual world, written as a synchronous grammar of Chinese and English.

A *meaning* is sampled once; each language realizes it independently and annotates every word with the part of the
meaning that it expresses. Two words that express the same part are aligned: the gold alignment costs nothing and is
correct by construction.

Read in this order: `meaning.py` (the nouns, verbs and adjectives of this world, and a sentence independent of
language), `chinese.py` and `english.py` (words and surface realization), `sample_*.py` (random meanings),
`pocket_corpus.py` (a pair with its alignment, training, held-out and generalization splits, and the settings).

**A third language** is one more module with a `Language`:

1. a lexicon: a word for each concept of `meaning.py` (write it as a table, as in `chinese.py`);
2. rules: `realize(meaning)` returns the words in order, each as `Word(text, tag, node, secondary_nodes)`. `node` is
   the path of the part of the meaning that the word expresses (`object`, `object.owner`, `verb`, `verb.not`, ...;
   `meaning.py` has the full list), `secondary_nodes` the paths that it helps to express;
3. `detokenize(words)`: the text of the words (with spaces or without);
4. one line in `LANGUAGES` and one word in `LanguageCode`, both in `pocket_corpus.py`.

Nothing else changes: sampling, splits and alignments do not depend on words. Check that the translation is
a function in both directions, as the tests do for Chinese and English.
"""
