"""The concepts of the pocket world, and the meaning of a sentence, independent of any language.

A concept is named by an English word, but belongs to no language: every language of the corpus expresses it. The
objects of a verb are restricted to classes (one eats food and reads books), the nouns of an adjective likewise, so that
nearly every sentence makes sense.

A meaning is a small tree of named tuples: who does what to whom, where and when. Each node has a *path*, and
each word of each language names the path that it expresses; words of two languages with the same path are aligned.

The paths, for a clause: `subject object recipient companion` (the noun itself), with `.number .determiner .owner
.quality0 .quality1 .portion .clause .and .second` inside a noun phrase; `place goal` with `.relation`; `verb` with
`.not .modal .tense .aspect .adverb`; `quality` with `.degree` (the predicate adjective); `time`; `mark` (the question
mark). In a compound sentence they begin with `first.` and `second.`, and `link` is the conjunction.
"""

from __future__ import annotations

from typing import NamedTuple

# --- concepts: nouns, verbs and adjectives, and which of them combine ---


NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

# class: its members
_CLASSES = """
pronoun    I you he she we they
name       Xiaoming Xiaohong Mary Tom Anna Peter Lucy Jack
family     mother father brother sister grandmother grandfather uncle aunt son daughter
job        teacher doctor nurse farmer driver worker writer singer student
person     boy girl man woman child friend classmate neighbour
pet        cat dog bird rabbit
livestock  horse cow pig duck sheep
wild       mouse monkey tiger elephant panda snake frog
fruit      apple pear banana orange peach strawberry watermelon lemon
snack      egg cookie dumpling sandwich cake
vegetable  tomato potato carrot
meal       rice bread meat chocolate cheese fish
drink      water tea coffee milk juice soup
paper      book newspaper magazine novel letter
tale       story poem
picture    photo painting map
program    movie match show
sound      song
clothes    shirt coat dress sweater jacket shoes socks
writing    pen pencil
container  box bag basket
dish       cup bottle bowl knife
device     phone computer camera lamp clock
thing      umbrella key ball ticket gift toy hat guitar wallet
plant      flower tree
furniture  table chair bed sofa
opening    door window
motor      car bus taxi truck
transport  bicycle boat
town       Beijing Shanghai London China
room       kitchen classroom office
indoors    library shop supermarket restaurant museum cinema hotel
outdoors   park garden zoo yard village
public     school hospital station airport bank
study      Chinese English math history music
"""
CLASSES = {line.split()[0]: tuple(line.split()[1:]) for line in _CLASSES.strip().splitlines()}

# Unions of classes.
_GROUPS = """
people     job person
animal     pet livestock wild
food       fruit snack vegetable meal
text       paper tale
goods      writing container dish device thing
wares      fruit snack clothes paper picture goods plant furniture motor transport
building   room indoors
site       room indoors outdoors public
"""


def members(names: str) -> tuple[str, ...]:
    """All concepts of some classes, groups or single concepts joined by `+`; `-` for none.

    >>> members("writing+plant+moon")
    ('pen', 'pencil', 'flower', 'tree', 'moon')
    """
    found: list[str] = []
    for name in names.split("+"):
        if name == "-":
            continue
        if name in GROUPS:
            found += [concept for part in GROUPS[name] for concept in members(part)]
        else:
            found += CLASSES.get(name, (name,))
    return tuple(dict.fromkeys(found))


GROUPS = {line.split()[0]: tuple(line.split()[1:]) for line in _GROUPS.strip().splitlines()}

# Mass nouns (and pairs) are counted in portions: bottles of water, not waters.
PORTIONS = {
    **dict.fromkeys(("rice", "soup"), "bowl"),
    **dict.fromkeys(("tea", "coffee", "milk"), "cup"),
    **dict.fromkeys(("water", "juice"), "bottle"),
    **dict.fromkeys(("meat", "chocolate", "cheese", "bread"), "piece"),
    **dict.fromkeys(("shoes", "socks"), "pair"),
}
PRONOUNS = CLASSES["pronoun"]
NAMES = frozenset(CLASSES["name"])
FAMILY = frozenset(CLASSES["family"])
STUDIES = frozenset(CLASSES["study"])
TOWNS = frozenset(CLASSES["town"])


class Verb(NamedTuple):
    """A verb: its aspect class, its agents and its objects."""

    concept: str
    kind: str
    """`action` (any time), `custom` (not "is doing"), `event` (past, future or modal), `state` (present)."""
    agents: str
    objects: tuple[str, ...]


# verb     kind    who     to what
_VERBS = """
eat        action  people  food
drink      action  people  drink
read       action  people  text
write      action  people  novel+story+letter+poem
watch      action  people  program
listen     action  people  story+music+song
buy        action  people  wares+vegetable+meal+drink
sell       action  people  wares+vegetable+meal
use        action  people  writing+dish+device+umbrella+map+boat
draw       action  people  animal+plant+fruit+map+motor+boat
wear       custom  people  clothes
wash       action  people  fruit+vegetable+clothes+dish+motor+bicycle
tidy       action  people  building
open       event   people  opening+box+bag+letter+bottle+gift
close      event   people  opening+box+bag+umbrella
make       action  people  snack+toy+clothes+furniture+basket+boat
cook       action  people  rice+meat+fish+soup+egg+dumpling+vegetable
cut        action  people  fruit+vegetable+bread+meat+cake+cheese
carry      action  people  container+paper+furniture+fruit+umbrella+computer+guitar
bring      event   people  goods+snack+bread+chocolate+carrot+drink+paper+picture
take       event   people  goods+paper+fruit
repair     action  people  device+motor+transport+furniture+opening+umbrella
borrow     event   people  paper+writing+umbrella+bicycle+car+camera+guitar+knife
find       event   people  goods+paper+picture+animal+child
lose       event   people  goods+paper+photo+shoes+hat
seek       action  people  goods+paper+picture+animal+person
drive      action  people  motor
ride       action  people  bicycle+horse+elephant
feed       action  people  animal
keep       state   people  pet+livestock
touch      action  people  animal+plant+toy
plant      action  people  plant+vegetable+strawberry+watermelon
see        event   living  people+family+name+animal+goods+motor+transport
like       state   living  wares+food+drink+animal+program+sound+study+pronoun+name+family+people
love       state   people  animal+study+pronoun+name+family
have       state   people  wares+pet+livestock+friend+child+classmate+neighbour
need       state   people  goods+drink+paper+clothes+furniture+ticket+doctor+friend
want       state   people  wares+vegetable+meal+drink+pet+livestock
know       state   people  people+name+family+pronoun
miss       state   people  family+name+friend+classmate+pronoun
help       action  people  people+name+family+pronoun
meet       event   people  people+name+family+pronoun
thank      event   people  people+name+family+pronoun
await      action  people  people+name+family+pronoun+bus+taxi
visit      action  people  museum+zoo+school+hospital+village+town+library
learn      action  people  study
teach      action  people  study
give       event   people  goods+paper+picture+fruit+snack+clothes+drink+flower+bread+chocolate+cheese
lend       event   people  paper+writing+umbrella+bicycle+car+camera+guitar
go         custom  people  site+town
come       custom  people  site+town
run        action  living  -
walk       action  living  -
swim       action  living  -
sleep      action  living  -
rest       action  living  -
sing       action  people  -
dance      action  people  -
work       action  people  -
cry        action  people  -
laugh      action  people  -
talk       action  people  -
"""


class Adjective(NamedTuple):
    """An adjective: the nouns that it describes, and whether the state is temporary (busy today)."""

    concept: str
    kind: str
    """`feeling` (changes from day to day), `trait` (stays), `color` (before a noun only)."""
    nouns: tuple[str, ...]


# adjective  kind     describes
_ADJECTIVES = """
busy         feeling  people+family+name
tired        feeling  people+family+name+horse+dog
happy        feeling  people+family+name
sad          feeling  people+family+name
hungry       feeling  people+family+name+animal
thirsty      feeling  people+family+name+animal
angry        feeling  people+family+name
tall         trait    people+family+name+tree
young        trait    people+name
clever       trait    people+family+name+monkey+dog+pig
famous       trait    people+name+book+novel+poem+painting+movie+song+school+museum+restaurant+hospital+park
friendly     trait    people+family+name
lazy         trait    people+name+cat+pig+panda
brave        trait    people+family+name
cute         trait    animal+child+toy
fat          trait    animal
big          trait    animal+fruit+container+furniture+opening+plant+motor+boat+clock+site+cake+ball
small        trait    animal+fruit+container+furniture+opening+plant+dish+device+thing+site+clothes
new          trait    clothes+text+writing+container+dish+device+thing+furniture+motor+transport
old          trait    clothes+text+writing+container+device+thing+furniture+motor+transport+photo
red          color    clothes+apple+flower+writing+container+umbrella+hat+motor+bicycle+opening+cup
black        color    clothes+animal+writing+container+umbrella+hat+motor+bicycle+wallet+sofa
white        color    clothes+cat+dog+horse+rabbit+duck+mouse+flower+furniture+motor+boat+cup+bowl
blue         color    clothes+bird+writing+container+umbrella+hat+motor+bicycle+boat+sofa+bottle
green        color    clothes+bird+frog+snake+apple+writing+container+umbrella+bottle+bus+taxi
yellow       color    clothes+bird+flower+pear+lemon+writing+container+umbrella+bus+taxi
expensive    trait    clothes+fruit+meal+device+thing+furniture+motor+transport+painting
cheap        trait    clothes+fruit+vegetable+drink+writing+dish+device+furniture+ticket+toy
beautiful    trait    clothes+plant+picture+lamp+clock+hat+garden+park+yard+village+town
clean        trait    clothes+dish+furniture+opening+motor+building+school+hospital+park
dirty        trait    clothes+dish+container+furniture+opening+motor+dog+pig
heavy        trait    container+furniture+computer+guitar+watermelon+pig
long         trait    dress+coat+novel+story+movie+letter
short        trait    dress+coat+novel+story+poem+pencil
quiet        trait    site+child+friend+classmate+rabbit
useful       trait    text+map+device+umbrella+knife+bag+study
interesting  trait    text+picture+program+sound+study+toy
fresh        trait    fruit+vegetable+milk+juice+fish+meat+bread+egg
sweet        trait    fruit+cake+cookie+juice+chocolate
delicious    trait    fruit+snack+meal
hot          trait    drink+rice+bread
cold         trait    drink+watermelon
"""


def _rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


VERBS = tuple(Verb(verb, kind, agents, members(objects)) for verb, kind, agents, objects in _rows(_VERBS))
ADJECTIVES = tuple(Adjective(name, kind, members(nouns)) for name, kind, nouns in _rows(_ADJECTIVES))


# --- meanings ---


class NounPhrase(NamedTuple):
    """A noun with its modifiers: I, Mary, my two black cats, the book that I like."""

    concept: str
    number: str = "one"
    """one, two to ten, some, many, how-many; plural (these pens); every (in general: pens, water)."""
    determiner: str = ""
    """this, that; "the" before a noun with a relative clause."""
    owner: NounPhrase | None = None
    adjectives: tuple[str, ...] = ()
    clause: Clause | None = None
    """The book *that I like*: a relative clause whose object is this noun and is therefore not repeated."""
    second: NounPhrase | None = None
    """The second conjunct: apples *and pears*."""


class Place(NamedTuple):
    """A place adverbial: at school, on the table, where."""

    concept: str
    relation: str = "in"


class Clause(NamedTuple):
    """One event or state. "be" takes an adjective, an object or a place; "exist" takes an object and a place."""

    verb: str
    subject: NounPhrase | None = None
    object: NounPhrase | None = None
    recipient: NounPhrase | None = None
    companion: NounPhrase | None = None
    goal: Place | None = None
    place: Place | None = None
    adjective: str = ""
    degree: str = ""
    tense: str = "present"
    """present, now (is doing), past, future."""
    time: str = ""
    modal: str = ""
    adverb: str = ""
    negated: bool = False
    polar_question: bool = False
    """A yes-no question; a wh-question contains who, what, where, when or how many instead."""


class CompoundSentence(NamedTuple):
    """Two clauses: the first *but* the second, the first *because* the second."""

    conjunction: str
    first: Clause
    second: Clause


Meaning = Clause | CompoundSentence


class Word(NamedTuple):
    """A word of a language, its part of speech, and the paths that it expresses."""

    text: str
    tag: str
    """As in Universal Dependencies, except CLF for a measure word."""
    node: str = ""
    """The path that this word expresses: at most one word of a sentence for each path."""
    secondary_nodes: tuple[str, ...] = ()
    """Paths that this word helps to express: 吃*了*, *last* week."""


def wh_role(clause: Clause) -> str:
    """The role that a wh-question is about: subject, object, place, goal, time; "" for any other clause."""
    if _is_wh(clause.subject):
        return "subject"
    if _is_wh(clause.object):
        return "object"
    if clause.place and clause.place.concept == "where":
        return "place"
    if clause.goal and clause.goal.concept == "where":
        return "goal"
    return "time" if clause.time == "when" else ""


def _is_wh(noun_phrase: NounPhrase | None) -> bool:
    """Whether the noun phrase contains who, what, how many or whose."""
    if noun_phrase is None:
        return False
    whose = noun_phrase.owner is not None and noun_phrase.owner.concept == "who"
    return whose or noun_phrase.concept in ("who", "what") or noun_phrase.number == "how-many"


def is_question(clause: Clause) -> bool:
    """Whether the clause ends with a question mark."""
    return clause.polar_question or bool(wh_role(clause))


_EMPTY = frozenset([*PRONOUNS, "who", "what", "where", "this", "that", "be", "exist"])


def content_words(meaning: Meaning) -> list[tuple[str, str]]:
    """The content words with their roles: (role, concept) for nouns, names, verbs, adjectives and places.

    Number, tense, question, negation, pronouns and time are omitted: sentences that differ only in these
    details, such as 我有一支笔 and 他没有笔, have the same content.
    """
    words: list[tuple[str, str]] = []
    if isinstance(meaning, CompoundSentence):
        words.append(("link", meaning.conjunction))
        _clause_content(meaning.first, words)
        _clause_content(meaning.second, words)
    else:
        _clause_content(meaning, words)
    return [word for word in words if word[1] not in _EMPTY]


def _clause_content(clause: Clause, words: list[tuple[str, str]]) -> None:
    words.append(("verb", clause.verb))
    if clause.subject:
        _noun_phrase_content(clause.subject, "subject", words)
    if clause.object:
        _noun_phrase_content(clause.object, "what" if clause.verb in ("be", "exist") else "object", words)
    if clause.recipient:
        _noun_phrase_content(clause.recipient, "recipient", words)
    if clause.companion:
        _noun_phrase_content(clause.companion, "companion", words)
    if clause.adjective:
        words.append(("quality", clause.adjective))
    if clause.goal:
        words.append(("goal", clause.goal.concept))
    if clause.place:
        words.append(("place", clause.place.concept))


def _noun_phrase_content(noun_phrase: NounPhrase, role: str, words: list[tuple[str, str]]) -> None:
    words.append((role, noun_phrase.concept))
    for adjective in noun_phrase.adjectives:
        words.append(("quality", adjective))
    if noun_phrase.owner:
        _noun_phrase_content(noun_phrase.owner, "owner", words)
    if noun_phrase.clause:
        _clause_content(noun_phrase.clause, words)
    if noun_phrase.second:
        _noun_phrase_content(noun_phrase.second, role, words)
