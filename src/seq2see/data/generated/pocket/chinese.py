"""The Chinese of the pocket world: its surface realization and its lexicon.

Time and place precede the verb, modifiers precede the noun, and there is no inflection:

我 昨天 在 学校 读 了 一 本 新 书        subject, time, place, verb, object
桌子 上 有 两 支 笔                      the place precedes the verb of existence
我 喜欢 的 书                            a relative clause precedes its noun

The lexicon has a word for each concept, and for a noun its measure word. Chinese puts a measure word between number and
noun: "a pen" is 一支笔, not 一笔. The noun selects it, often by shape: 支 for sticks, 张 for flat objects, 本 for
bound ones.
"""

from __future__ import annotations

from seq2see.data.generated.pocket.meaning import (
    FAMILY,
    NAMES,
    PORTIONS,
    PRONOUNS,
    TOWNS,
    Clause,
    Meaning,
    NounPhrase,
    Place,
    Word,
    is_question,
)

NUMBERLESS = ("every", "plural", "some", "many")
PLURAL_DEMONSTRATIVES = {"this": "these", "that": "those"}


def realize(meaning: Meaning) -> list[Word]:
    """The Chinese words of a meaning."""
    if isinstance(meaning, Clause):
        return _clause(meaning, "")
    comma = Word("，", "PUNCT")
    first, second = _clause(meaning.first, "first."), _clause(meaning.second, "second.")
    if meaning.conjunction == "because":
        # The reason precedes the effect in Chinese and follows it in English.
        return [
            Word("因为", "SCONJ", "link"), *second, comma, Word("所以", "CCONJ", "", ("link",)), *first,
        ]  # fmt: skip
    return [*first, comma, Word("但是", "CCONJ", "link"), *second]


def detokenize(words: list[Word]) -> str:
    """Chinese is written without spaces."""
    return "".join(word.text for word in words)


def _clause(clause: Clause, path: str) -> list[Word]:
    """A clause with its question words at the end: 吗？ for yes or no, only ？ after 谁, 什么, 哪里."""
    rules = {"exist": _existence, "be": _copula_clause}
    words = rules.get(clause.verb, _verb_clause)(clause, path)
    if clause.polar_question:
        words.append(Word("吗", "PART"))
    if is_question(clause):
        words.append(Word("？", "PUNCT", path + "mark"))
    return words


def _verb_clause(clause: Clause, path: str, relative: bool = False) -> list[Word]:
    verb = path + "verb"
    words = _opening(clause, path)
    if clause.adverb:
        words.append(Word(WORDS[clause.adverb], "ADV", verb + ".adverb"))
    if clause.negated and clause.verb != "have":
        # 没有 negates the past, 不 negates all other tenses.
        words.append(Word("没有" if clause.tense == "past" else "不", "ADV", verb + ".not"))
    words += _auxiliaries(clause, path)
    if clause.companion:
        words.append(Word("跟", "ADP", path + "companion.with"))
        words += _noun_phrase(clause.companion, path + "companion")
        words.append(Word("一起", "ADV", "", (path + "companion.with",)))
    if clause.place:
        # 正在 already contains the 在 of the place: 正在公园里跑步.
        words += _place(clause.place, path + "place")[_holds_place(clause) :]
    if clause.negated and clause.verb == "have":
        words.append(Word("没有", "VERB", verb, (verb + ".not",)))
    else:
        words.append(Word(WORDS[clause.verb], "VERB", verb))
    if clause.tense == "past" and not clause.negated and clause.verb != "have" and not relative:
        words.append(Word("了", "PART", "", (verb,)))
    if clause.recipient:
        words += _noun_phrase(clause.recipient, path + "recipient")
    if clause.object:
        words += _noun_phrase(clause.object, path + "object", silent_one=clause.negated and clause.verb == "have")
    if clause.goal:
        words.append(Word(WORDS[clause.goal.concept], _noun_tag(clause.goal.concept), path + "goal"))
    return words


def _copula_clause(clause: Clause, path: str) -> list[Word]:
    words = _opening(clause, path)
    verb = path + "verb"
    if clause.negated:
        words.append(Word("不", "ADV", verb + ".not"))
    words += _auxiliaries(clause, path)
    if clause.adjective:
        if clause.degree:
            words.append(Word(WORDS[clause.degree], "ADV", path + "quality.degree"))
        elif clause.tense == "future" or not (clause.negated or clause.polar_question):
            # A bare adjective would express a comparison; 很 completes the sentence and need not mean "very".
            words.append(Word("很", "ADV", "", (verb,)))
        words.append(Word(WORDS[clause.adjective], "ADJ", path + "quality"))
        if clause.degree == "too":
            words.append(Word("了", "PART", "", (path + "quality.degree",)))
    elif clause.object:
        words.append(Word("是", "AUX", verb))
        words += _noun_phrase(clause.object, path + "object", silent_one=clause.negated)
    elif clause.place:
        there, *where = _place(clause.place, path + "place")
        words += [there._replace(tag="VERB", node=verb, secondary_nodes=(path + "place.relation",)), *where]
    return words


def _existence(clause: Clause, path: str) -> list[Word]:
    assert clause.place
    assert clause.object
    words = _place(clause.place, path + "place")[1:]
    verb = path + "verb"
    if clause.negated:
        words.append(Word("没有", "VERB", verb, (verb + ".not",)))
    else:
        words.append(Word("有", "VERB", verb))
    return words + _noun_phrase(clause.object, path + "object", silent_one=clause.negated)


def _opening(clause: Clause, path: str) -> list[Word]:
    """The subject and the time."""
    words = _noun_phrase(clause.subject, path + "subject") if clause.subject else []
    if clause.time:
        tag = "ADV" if clause.time == "when" else "NOUN"
        words.append(Word(WORDS[clause.time], tag, path + "time"))
    return words


def _auxiliaries(clause: Clause, path: str) -> list[Word]:
    if clause.modal:
        return [Word(WORDS[clause.modal], "AUX", path + "verb.modal")]
    if clause.tense == "future":
        return [Word("会", "AUX", path + "verb.tense")]
    if clause.tense == "now":
        helps = (path + "place.relation",) if _holds_place(clause) else ()
        return [Word("正在", "ADV", path + "verb.aspect", helps)]
    return []


def _holds_place(clause: Clause) -> bool:
    return clause.tense == "now" and clause.place is not None and clause.companion is None


def _place(place: Place, path: str) -> list[Word]:
    """在 and the place, and for most relations a word after it: 在 桌子 上."""
    after = WORDS[place.relation] if place.concept not in TOWNS and place.concept != "where" else "-"
    relation = path + ".relation"
    noun = Word(WORDS[place.concept], _noun_tag(place.concept), path)
    if after == "-":
        return [Word("在", "ADP", relation), noun]
    return [Word("在", "ADP", "", (relation,)), noun, Word(after, "ADP", relation)]


def _noun_phrase(noun_phrase: NounPhrase, path: str, silent_one: bool = False) -> list[Word]:
    words = [*_owner(noun_phrase, path), *_count(noun_phrase, path, silent_one)]
    if noun_phrase.clause:
        words += _verb_clause(noun_phrase.clause, path + ".clause.", relative=True)
        words.append(Word("的", "PART", path + ".clause"))
    for index, adjective in enumerate(noun_phrase.adjectives):
        words.append(Word(WORDS[adjective], "ADJ", f"{path}.quality{index}"))
        if adjective not in WITHOUT_DE:
            words.append(Word("的", "PART", "", (f"{path}.quality{index}",)))
    concept = noun_phrase.concept
    if concept in PLURAL_DEMONSTRATIVES and noun_phrase.number == "plural":
        concept = PLURAL_DEMONSTRATIVES[concept]
    words.append(Word(WORDS[concept], _noun_tag(noun_phrase.concept), path))
    if noun_phrase.second:
        words.append(Word("和", "CCONJ", path + ".and"))
        words += _noun_phrase(noun_phrase.second, path + ".second", silent_one)
    return words


def _owner(noun_phrase: NounPhrase, path: str) -> list[Word]:
    if not noun_phrase.owner:
        return []
    words = _noun_phrase(noun_phrase.owner, path + ".owner")
    # 我妈妈: there is no 的 between a pronoun and a family member.
    if not (noun_phrase.concept in FAMILY and noun_phrase.owner.concept in PRONOUNS):
        words.append(Word("的", "PART", "", (path + ".owner",)))
    return words


def _count(noun_phrase: NounPhrase, path: str, silent_one: bool) -> list[Word]:
    """这 两 支: determiner, number, and the measure word that the noun selects."""
    words = []
    number, determiner = noun_phrase.number, noun_phrase.determiner
    if determiner in ("this", "that"):
        plural = PLURAL_DEMONSTRATIVES[determiner] if number == "plural" else determiner
        words.append(Word(WORDS[plural], "DET", path + ".determiner"))
    if number in ("some", "many"):
        words.append(Word(WORDS[number], "DET" if number == "some" else "NUM", path + ".number"))
    if number in NUMBERLESS or MEASURES.get(noun_phrase.concept) is None or noun_phrase.concept in NAMES:
        return words
    if number == "one" and (silent_one or noun_phrase.owner or determiner == "the"):
        return words
    if not (number == "one" and determiner):
        words.append(Word(WORDS[number], "NUM", path + ".number"))
    if noun_phrase.concept in PORTIONS:
        words.append(Word(WORDS[PORTIONS[noun_phrase.concept] + "-of"], "CLF", path + ".portion"))
    else:
        words.append(Word(MEASURES[noun_phrase.concept], "CLF", "", (path,)))
    return words


def _noun_tag(concept: str) -> str:
    if concept in NAMES or concept in TOWNS:
        return "PROPN"
    if concept in PRONOUNS or concept in ("who", "what", "where", "this", "that"):
        return "PRON"
    return "NOUN"


# concept  word  measure word
_NOUNS = """
teacher 老师 位       doctor 医生 位        nurse 护士 位         farmer 农民 位        driver 司机 位
worker 工人 位        writer 作家 位        singer 歌手 位        student 学生 个       boy 男孩 个
girl 女孩 个          man 男人 个           woman 女人 个         child 孩子 个         friend 朋友 个
classmate 同学 个     neighbour 邻居 个     mother 妈妈 个        father 爸爸 个        brother 哥哥 个
sister 姐姐 个        grandmother 奶奶 个   grandfather 爷爷 个   uncle 叔叔 个         aunt 阿姨 个
son 儿子 个           daughter 女儿 个

cat 猫 只             dog 狗 只             bird 鸟 只            horse 马 匹           cow 牛 头
pig 猪 头             rabbit 兔子 只        duck 鸭子 只          monkey 猴子 只        tiger 老虎 只
elephant 大象 头      panda 熊猫 只         mouse 老鼠 只         snake 蛇 条           frog 青蛙 只
sheep 羊 只           fish 鱼 条            flower 花 朵          tree 树 棵

apple 苹果 个         pear 梨 个            banana 香蕉 根        orange 橙子 个        peach 桃子 个
strawberry 草莓 颗    watermelon 西瓜 个    lemon 柠檬 个         egg 鸡蛋 个           cookie 饼干 块
dumpling 饺子 个      sandwich 三明治 个    cake 蛋糕 个          tomato 西红柿 个      potato 土豆 个
carrot 胡萝卜 根      rice 米饭 -           bread 面包 -          meat 肉 -             chocolate 巧克力 -
cheese 奶酪 -         water 水 -            tea 茶 -              coffee 咖啡 -         milk 牛奶 -
juice 果汁 -          soup 汤 -

book 书 本            newspaper 报纸 份     magazine 杂志 本      novel 小说 部         story 故事 个
letter 信 封          poem 诗 首            photo 照片 张         painting 画 幅        map 地图 张
movie 电影 部         match 比赛 场         show 节目 个          song 歌 首            ticket 票 张
shirt 衬衫 件         coat 大衣 件          dress 裙子 条         sweater 毛衣 件       jacket 夹克 件
shoes 鞋 -            socks 袜子 -          hat 帽子 顶

pen 笔 支             pencil 铅笔 支        box 盒子 个           bag 包 个             basket 篮子 个
cup 杯子 个           bottle 瓶子 个        bowl 碗 个            knife 刀 把           phone 手机 部
computer 电脑 台      camera 相机 台        lamp 灯 盏            clock 钟 个           umbrella 雨伞 把
key 钥匙 把           ball 球 个            gift 礼物 份          toy 玩具 个           guitar 吉他 把
wallet 钱包 个        table 桌子 张         chair 椅子 把         bed 床 张             sofa 沙发 张
door 门 扇            window 窗户 扇        car 汽车 辆           bus 公共汽车 辆       taxi 出租车 辆
truck 卡车 辆         bicycle 自行车 辆     boat 船 条

kitchen 厨房 个       classroom 教室 间     office 办公室 间      library 图书馆 个     shop 商店 家
supermarket 超市 家   restaurant 饭馆 家    museum 博物馆 个      cinema 电影院 家      hotel 酒店 家
park 公园 个          garden 花园 个        zoo 动物园 个         yard 院子 个          village 村子 个
school 学校 所        hospital 医院 家      station 车站 个       airport 机场 个       bank 银行 家
home 家 -             Beijing 北京 -        Shanghai 上海 -       London 伦敦 -         China 中国 -
Chinese 汉语 -        English 英语 -        math 数学 -           history 历史 -        music 音乐 -

Xiaoming 小明 -       Xiaohong 小红 -       Mary 玛丽 -           Tom 汤姆 -            Anna 安娜 -
Peter 彼得 -          Lucy 露西 -           Jack 杰克 -
"""

_OTHER_WORDS = """
I 我          you 你        he 他         she 她        we 我们       they 他们
this 这       that 那       these 这些    those 那些    who 谁        what 什么
one 一        two 两        three 三      four 四       five 五       six 六
seven 七      eight 八      nine 九       ten 十        some 一些     many 很多
how-many 几   bowl-of 碗    cup-of 杯     bottle-of 瓶  piece-of 块   pair-of 双

eat 吃        drink 喝      read 读       write 写      watch 看      listen 听
buy 买        sell 卖       use 用        draw 画       wear 穿       wash 洗
tidy 打扫     open 打开     close 关上    make 做       cook 煮       cut 切
carry 搬      bring 带      take 拿       repair 修     borrow 借     find 找到
lose 丢       seek 找       drive 开      ride 骑       feed 喂       keep 养
touch 摸      plant 种      see 看见      like 喜欢     love 爱       have 有
need 需要     want 想要     know 认识     miss 想念     help 帮助     meet 遇见
thank 感谢    await 等      visit 参观    learn 学习    teach 教      give 给
lend 借给     go 去         come 来       run 跑步      walk 走路     swim 游泳
sleep 睡觉    rest 休息     sing 唱歌     dance 跳舞    work 工作     cry 哭
laugh 笑      talk 聊天     can 能        should 应该   want-to 想

busy 忙       tired 累      happy 高兴    sad 难过      hungry 饿     thirsty 口渴
angry 生气    tall 高       young 年轻    clever 聪明   famous 有名   friendly 友好
lazy 懒       brave 勇敢    cute 可爱     fat 胖        big 大        small 小
new 新        old 旧        red 红色      black 黑色    white 白色    blue 蓝色
green 绿色    yellow 黄色   expensive 贵  cheap 便宜    beautiful 漂亮  clean 干净
dirty 脏      heavy 重      long 长       short 短      useful 有用   interesting 有意思
fresh 新鲜    sweet 甜      delicious 好吃  hot 热      cold 冰       very 非常
quiet 安静    too 太

yesterday 昨天   last-week 上周   last-year 去年   today 今天     every-day 每天   morning 早上
evening 晚上     weekends 周末    now 现在         tomorrow 明天  next-week 下周   next-year 明年
when 什么时候    where 哪里       often 常常       always 总是    also 也
at -             in 里            on 上            under 下面     behind 后面      beside 旁边
"""

_nouns = _NOUNS.split()
WORDS = dict(zip(_nouns[::3], _nouns[1::3], strict=True))
MEASURES = dict(zip(_nouns[::3], _nouns[2::3], strict=True))
_others = _OTHER_WORDS.split()
WORDS |= dict(zip(_others[::2], _others[1::2], strict=True))

WITHOUT_DE = frozenset(["big", "small", "new", "old", "long", "short", "fat", "hot", "cold"])
"""Adjectives that precede their noun without 的: 新书, but 漂亮的花."""
