/** What the view "One head by hand" says. */

import { shared } from "./attention_words.js";

export const words = {
  en: {
    ...shared.en,
    title: "One head by hand",
    help_text:
      "Attention is a few lines of arithmetic, and here they are with the model's own numbers. A token's query q is " +
      "compared with every key k by a dot product; the result is divided by √d, forbidden keys get −∞, softmax makes " +
      "shares of it, and the output is the sum of the values v, each by its share. The page computes this itself; with " +
      "nothing changed it gives what the model gives.\n" +
      "Switch off the division and see softmax make up its mind too early; switch off the mask and see the future. Choose " +
      "a cell of Q, K or V and change its number. Rotary positions have turned q and k already; other positions add something.",
    query: "token that asks",
    scaled: "divide by √d",
    masked: "mask",
    queries: "Q: queries",
    keys: "K: keys",
    values: "V: values",
    change: "change a number: choose a cell of Q, K or V",
    number: "{part} of “{token}”, number {place}",
    undo: "undo this change",
    undo_all: "undo all {count} changes",
    steps: "“{token}” asks every key",
    key: "key",
    product: "q · k",
    sum_additive: "v · tanh(W q + U k)",
    divided: "÷ √{size}",
    positions: "+ position",
    after_mask: "mask",
    exponential: "e^(x − max)",
    share: "softmax",
    model_share: "in the model",
    allowed: "may look",
    forbidden: "−∞",
    spelled: "q · k, number by number: “{token}” and “{key}”",
    together: "sum {value}",
    only_strongest: "of {count} keys, the {shown} that get the largest shares",
    output: "output: Σ softmax × v",
    by_hand: "by hand",
    in_model: "in the model",
    all_rows: "softmax of all tokens, computed here",
    equal: "nothing is changed: the largest difference to the model is {value}",
    differs: "changed: the largest difference to the model is {value}",
    spread: "entropy of this row {now} bits; in the model {was} bits",
    additive: "This is additive attention (Bahdanau 2015): v · tanh(W q + U k). Q shows W q, K shows U k; nothing is divided.",
    dot: "This attention does not divide: it is a dot product (Luong 2015).",
  },
  zh: {
    ...shared.zh,
    title: "手算一个头",
    help_text:
      "注意力只是几行算术，这里用的是模型自己的数。一个词元的查询 q 与每个键 k 做点积，除以 √d，禁止看的键得 −∞，softmax 变成份额，" +
      "输出是各个值 v 按份额相加。这些由网页自己计算；什么都不改时，结果与模型相同。\n" +
      "关掉除法，可看到 softmax 过早饱和；关掉掩码，可看到未来。选中 Q、K 或 V 的一个格子，可改动其中的数。" +
      "旋转位置编码已经转过 q 和 k；其他相对位置则加在分数上。",
    query: "发问的词元",
    scaled: "除以 √d",
    masked: "掩码",
    queries: "Q：查询",
    keys: "K：键",
    values: "V：值",
    change: "改一个数：选中 Q、K 或 V 的一个格子",
    number: "“{token}” 的 {part}，第 {place} 个数",
    undo: "撤销这处改动",
    undo_all: "撤销全部 {count} 处改动",
    steps: "“{token}” 询问每个键",
    key: "键",
    product: "q · k",
    sum_additive: "v · tanh(W q + U k)",
    divided: "÷ √{size}",
    positions: "+ 位置",
    after_mask: "掩码",
    exponential: "e^(x − max)",
    share: "softmax",
    model_share: "模型中",
    allowed: "可看",
    forbidden: "−∞",
    spelled: "q · k 逐个数：“{token}” 与 “{key}”",
    together: "和为 {value}",
    only_strongest: "共 {count} 个键，只列出份额最大的 {shown} 个",
    output: "输出：Σ softmax × v",
    by_hand: "手算",
    in_model: "模型中",
    all_rows: "所有词元的 softmax，在这里计算",
    equal: "什么都没有改：与模型的最大差为 {value}",
    differs: "有改动：与模型的最大差为 {value}",
    spread: "这一行的熵为 {now} 比特；模型中为 {was} 比特",
    additive: "这是加性注意力（Bahdanau 2015）：v · tanh(W q + U k)。Q 为 W q，K 为 U k，不做除法。",
    dot: "这种注意力不做除法，只是点积（Luong 2015）。",
  },
};
