"""Pocket talk: generated dialogues in which the answer to a question is in an earlier message of the user.

    user       my name is Ann .                    user       what is my name ?
    assistant  nice to meet you .                  assistant  your name is Ann .
    user       how is the weather ?  ...

The assistant acknowledges a fact without repeating it, so only a model that remembers the whole dialogue can answer.
Each such reply is annotated with its distance: the number of messages of the user from the fact to the question.
Some facts are corrected, and then the answer is the correction; some questions are about facts never mentioned.

Every word of the test dialogues occurs in training, but no combination of the first two facts does: a model that has
memorized the training dialogues cannot answer from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from seq2see.core.seeds import derive_seed, generator
from seq2see.core.settings import Settings
from seq2see.data.dialogue import Dialogue, Message, RecallProbe
from seq2see.data.examples import Example

SEED = 2026
SIZES = {"valid": 120, "test": 360}
MAX_DISTANCE = 6
"""The largest distance of the first question from its fact; all distances up to it are equally frequent."""
HELD_OUT_SHARES = {"test": 10, "valid": 5}
"""Of 100 combinations of two facts, how many belong to each held-out split."""
CORRECTED, UNKNOWN = 0.15, 0.15
"""The shares of dialogues with a corrected fact, and with a question about a fact that was never mentioned."""


@dataclass(frozen=True)
class Topic:
    """A kind of fact: how it is stated, corrected, requested and recalled; `{}` is its value."""

    values: tuple[str, ...]
    statements: tuple[str, ...]
    reaction: str
    """The reply to a statement, which does not contain the value."""
    correction: str
    questions: tuple[str, ...]
    answer: str
    unknown: str
    """The reply to a question about a fact that was never mentioned."""


def words(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


@dataclass(frozen=True)
class TalkLanguage:
    """The sentences of a language."""

    topics: tuple[Topic, ...]
    small_talk: tuple[tuple[str, str], ...]
    corrected: str
    """The reply to a correction."""


ENGLISH = TalkLanguage(
    topics=(
        Topic(
            words("Ann Ben Carla David Emma Frank Grace Henry Iris Jack Kate Leo Mia Noah Olga Paul Rosa Sam Tina"),
            ("my name is {}.", "i am called {}.", "please call me {}."),
            "nice to meet you.",
            "sorry, my name is {}.",
            ("what is my name?", "do you remember my name?"),
            "your name is {}.",
            "i do not know your name.",
        ),
        Topic(
            words("London Paris Rome Oslo Cairo Tokyo Lima Delhi Berlin Boston Vienna Lisbon Madrid Athens Dublin"),
            ("i live in {}.", "my home is in {}."),
            "that is a beautiful city.",
            "sorry, i live in {}.",
            ("where do i live?", "which city do i live in?"),
            "you live in {}.",
            "i do not know where you live.",
        ),
        Topic(
            words("dog cat horse parrot rabbit hamster turtle goldfish snake goat duck pony"),
            ("i have a {} at home.", "my pet is a {}."),
            "how lovely.",
            "sorry, my pet is a {}.",
            ("what pet do i have?", "do you remember my pet?"),
            "you have a {}.",
            "i do not know your pet.",
        ),
        Topic(
            words("red blue green yellow black white purple orange pink brown silver golden"),
            ("my favorite color is {}.", "i like the color {} best."),
            "a good choice.",
            "sorry, my favorite color is {}.",
            ("what is my favorite color?", "which color do i like best?"),
            "your favorite color is {}.",
            "i do not know your favorite color.",
        ),
        Topic(
            words("teacher doctor baker farmer painter lawyer pilot singer writer nurse cook plumber driver student"),
            ("i work as a {}.", "my job is {}."),
            "that sounds interesting.",
            "sorry, i work as a {}.",
            ("what is my job?", "what do i work as?"),
            "you work as a {}.",
            "i do not know your job.",
        ),
    ),
    small_talk=(
        ("how are you?", "i am fine, thank you."),
        ("how is the weather?", "it is sunny today."),
        ("what time is it?", "i have no watch."),
        ("can you sing?", "no, but i can talk."),
        ("are you a robot?", "yes, i am a small model."),
        ("do you like music?", "yes, very much."),
        ("i am tired.", "then have a rest."),
        ("i am hungry.", "then have something to eat."),
        ("what can you do?", "i can remember what you say."),
        ("good morning.", "good morning to you."),
        ("it is late.", "yes, time goes by."),
        ("do you sleep?", "no, never."),
    ),
    corrected="thank you, i will remember that.",
)  # fmt: skip
CHINESE = TalkLanguage(
    topics=(
        Topic(
            words(
                "小明 小红 小刚 小丽 小华 小芳 小强 小燕 小军 小梅 大伟 大海 阿宝 阿珍 阿龙 美玲 建国 志强 晓东 文静"
            ),
            ("我叫{}。", "我的名字是{}。", "你可以叫我{}。"),
            "很高兴认识你。",
            "不对，我叫{}。",
            ("我叫什么名字？", "你记得我的名字吗？"),
            "你叫{}。",
            "我不知道你的名字。",
        ),
        Topic(
            words("北京 上海 广州 深圳 杭州 南京 成都 重庆 武汉 西安 苏州 天津 长沙 青岛 大连"),
            ("我住在{}。", "我的家在{}。"),
            "那是个漂亮的地方。",
            "不对，我住在{}。",
            ("我住在哪里？", "我的家在哪个城市？"),
            "你住在{}。",
            "我不知道你住在哪里。",
        ),
        Topic(
            words("狗 猫 马 鹦鹉 兔子 仓鼠 乌龟 金鱼 蛇 山羊 鸭子 小鸡"),
            ("我家有一只{}。", "我的宠物是{}。"),
            "真可爱。",
            "不对，我的宠物是{}。",
            ("我的宠物是什么？", "你记得我的宠物吗？"),
            "你的宠物是{}。",
            "我不知道你的宠物。",
        ),
        Topic(
            words("红色 蓝色 绿色 黄色 黑色 白色 紫色 橙色 粉色 棕色 银色 金色"),
            ("我最喜欢{}。", "我最爱的颜色是{}。"),
            "不错的选择。",
            "不对，我最喜欢{}。",
            ("我最喜欢什么颜色？", "我最爱的颜色是什么？"),
            "你最喜欢{}。",
            "我不知道你喜欢什么颜色。",
        ),
        Topic(
            words("老师 医生 面包师 农民 画家 律师 飞行员 歌手 作家 护士 厨师 学生 司机 警察"),
            ("我是一名{}。", "我的工作是{}。"),
            "听起来很有意思。",
            "不对，我是一名{}。",
            ("我的工作是什么？", "我是做什么的？"),
            "你是一名{}。",
            "我不知道你的工作。",
        ),
    ),
    small_talk=(
        ("你好吗？", "我很好，谢谢。"),
        ("今天天气怎么样？", "今天是晴天。"),
        ("现在几点了？", "我没有手表。"),
        ("你会唱歌吗？", "不会，但我会聊天。"),
        ("你是机器人吗？", "对，我是一个小模型。"),
        ("你喜欢音乐吗？", "非常喜欢。"),
        ("我累了。", "那就休息一下吧。"),
        ("我饿了。", "那就吃点东西吧。"),
        ("你能做什么？", "我能记住你说的话。"),
        ("早上好。", "早上好。"),
        ("时间不早了。", "是啊，时间过得真快。"),
        ("你睡觉吗？", "我从不睡觉。"),
    ),
    corrected="谢谢，我记住了。",
)
LANGUAGES = {"en": ENGLISH, "zh": CHINESE}


class PocketTalk(Settings):
    """Generated dialogues whose questions are answered by an earlier message; nothing is downloaded."""

    kind: Literal["talk"] = "talk"
    language: Literal["en", "zh"] = "en"
    """The language: English or Chinese."""
    size: int = Field(6000, ge=1, le=1_000_000)
    """The number of training dialogues; the other splits do not depend on it."""

    def splits(self) -> dict[str, list[Example]]:
        """train, valid and test: no combination of the first two facts is in two splits."""
        sizes = {**SIZES, "train": self.size}
        return {name: _generate(self.language, name, size) for name, size in sizes.items()}


@dataclass
class DialogueWriter:
    """Writes one dialogue, message by message."""

    language: TalkLanguage
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.messages: list[Message] = []
        self.probes: list[RecallProbe] = []
        self.facts: dict[int, tuple[str, int]] = {}  # by topic: the value, and the number of its exchange
        self.free_talk = list(self.rng.permutation(len(self.language.small_talk)))

    def choice(self, texts: tuple[str, ...]) -> str:
        """One of these texts."""
        return texts[int(self.rng.integers(len(texts)))]

    def add(self, question: str, reply: str) -> None:
        """A message of the user and its reply."""
        self.messages += [Message("user", question), Message("assistant", reply)]

    def talk(self) -> None:
        """Small talk, different each time."""
        self.add(*self.language.small_talk[self.free_talk.pop()])

    def state(self, topic: int, value: str) -> None:
        """A fact, or its correction."""
        texts = self.language.topics[topic]
        is_new = topic not in self.facts
        self.facts[topic] = value, len(self.messages) // 2
        text = self.choice(texts.statements) if is_new else texts.correction
        self.add(text.format(value), texts.reaction if is_new else self.language.corrected)

    def recall(self, topic: int) -> None:
        """A question about a fact."""
        texts, number = self.language.topics[topic], len(self.messages) // 2
        if topic not in self.facts:
            self.add(self.choice(texts.questions), texts.unknown)
            return
        value, stated = self.facts[topic]
        self.probes.append(RecallProbe(2 * number + 1, number - stated, value))
        self.add(self.choice(texts.questions), texts.answer.format(value))


def _generate(language: str, split: str, size: int) -> list[Example]:
    dialogues = _dialogues(LANGUAGES[language], split, generator(SEED, f"pocket talk {language} {split}"))
    return [next(dialogues) for _ in range(size)]


def _dialogues(language: TalkLanguage, split: str, rng: np.random.Generator) -> Iterator[Dialogue]:
    count = 0
    while True:
        order = [int(each) for each in rng.permutation(len(language.topics))]
        values = [_value(language, rng, topic) for topic in order]
        if combination_split(values[0], values[1]) == split:
            yield _dialogue(DialogueWriter(language, rng), order, values, 1 + count % MAX_DISTANCE)
            count += 1


def _dialogue(writer: DialogueWriter, order: list[int], values: list[str], distance: int) -> Dialogue:
    """One dialogue: the question about the first fact has this distance; the second fact is anywhere before it."""
    rng, first, second = writer.rng, order[0], order[1]
    is_corrected, is_unknown = rng.random() < CORRECTED, rng.random() < UNKNOWN
    before = int(rng.integers(0, 3))
    slots = before + distance - 1  # the messages around the first fact, one of which is the second fact
    position = int(rng.integers(0, slots)) if slots else -1
    if is_corrected:
        writer.state(first, next(each for each in writer.language.topics[first].values if each != values[0]))
    for slot in range(slots + 1):
        if slot == before:
            writer.state(first, values[0])
        elif slot - (slot > before) == position:
            writer.state(second, values[1])
        else:
            writer.talk()
    writer.recall(first)
    if second not in writer.facts:
        writer.state(second, values[1])
    for _ in range(int(rng.integers(0, 2))):
        writer.talk()
    writer.recall(order[2] if is_unknown else second)
    return Dialogue.of(writer.messages, probes=writer.probes)


def _value(language: TalkLanguage, rng: np.random.Generator, topic: int) -> str:
    values = language.topics[topic].values
    return values[int(rng.integers(len(values)))]


def combination_split(first: str, second: str) -> str:
    """The split of all dialogues whose first two facts have these values, in either order."""
    share = derive_seed(SEED, "pocket talk split " + " ".join(sorted((first, second)))) % 100
    test = HELD_OUT_SHARES["test"]
    return "test" if share < test else "valid" if share < test + HELD_OUT_SHARES["valid"] else "train"
