/** What the view of recurrent networks says. */

export const strings = {
  en: {
    title: "Recurrent",
    hint: "Press the first token and see how soon nothing of it is left: that is what attention was invented for.",
    help_text:
      "A recurrent network reads one token after another and carries one state along: here each row is one number of that " +
      "state, each column a token. Gates decide what is kept and what is written. Press a token to see how much of it is " +
      "left in the states after it. A decoder without attention knows the source only by one context vector; below, that " +
      "vector stands against what attention gives at each step.",
    examples: "examples", own_answer: "empty: the model's own answer",
    side_source: "encoder", side_target: "decoder", layer: "layer", ahead: "forwards", back: "backwards", cell: "cell", token: "token",
    shows: "show", shows_hidden: "state h", shows_cell: "memory c", shows_candidate: "candidate", shows_reset: "reset gate r",
    shows_update: "update gate z", shows_input: "input gate i", shows_forget: "forget gate f", shows_output: "output gate o",
    about_hidden: "What the cell shows to others after each token. Blue is above zero, orange below.",
    about_cell: "What an LSTM keeps to itself; only gates change it.",
    about_candidate: "What would be written if all gates were open.",
    about_reset: "How much of the old state takes part in the candidate: 0 forgets it there.",
    about_update: "How much of the old state is copied: 1 keeps it as it was, 0 takes the candidate.",
    about_input: "How much of the candidate is written into the memory.",
    about_forget: "How much of the old memory stays: 1 keeps all of it.",
    about_output: "How much of the memory is shown.",
    sort: "sort units by", sort_number: "number", sort_mean: "mean", sort_change: "change", sort_latest: "when strongest",
    left_frame: "What is left of a frame", left_value: "What is left of a value", place_frame: "frame", place_value: "time",
    states: "States", influence: "What is left of a word", left_of: "What is left of “{word}”", place: "token number", step: "step",
    left_help:
      "Press a token. At the token itself every curve is 1. Difference: how far the state would be elsewhere without the " +
      "word. Derivative: how strongly the state follows a small change of the word: it is the product of the derivatives " +
      "of all steps between, so it vanishes or explodes. Cosine: how alike the state is to what it was at the word.",
    difference: "difference", derivative: "derivative", cosine: "cosine", log: "logarithmic",
    contexts: "One context vector, or one at each step", one_context: "context vector",
    look_attention: "The first row is the context vector that sums the whole source up; below it is what attention gave the " +
      "decoder at each step.",
    look_every: "This decoder has no attention: at every step it is given the same context vector.",
    look_once: "This decoder has no attention: the context vector is its first state, and whatever it needs later its state has to carry.",
    attention_ablation: "What the context vector alone would do",
    needed_curve: "Probability of each right token",
    needed_help: "The probability of each right token: with attention, and if every step were given the one context vector instead.",
    with_attention: "with attention", without_attention: "context vector instead", likeness: "cosine of both contexts",
  },
  zh: {
    title: "循环网络",
    hint: "点击第一个词元，看它多快就所剩无几：注意力正是为此而提出的。",
    help_text:
      "循环网络逐个读入词元，并带着一个状态往前走：这里每一行是状态中的一个数，每一列是一个词元。门决定保留什么、写入什么。" +
      "点击一个词元，看它在之后的状态里还剩多少。没有注意力的解码器只通过一个上下文向量知道原文；" +
      "下面把这个向量与注意力每一步给出的向量相对照。",
    examples: "例子", own_answer: "留空：用模型自己的回答",
    side_source: "编码器", side_target: "解码器", layer: "层", ahead: "正向", back: "反向", cell: "单元", token: "词元",
    shows: "显示", shows_hidden: "状态 h", shows_cell: "记忆 c", shows_candidate: "候选", shows_reset: "重置门 r",
    shows_update: "更新门 z", shows_input: "输入门 i", shows_forget: "遗忘门 f", shows_output: "输出门 o",
    about_hidden: "每个词元之后，单元展示给外部的内容。蓝色大于零，橙色小于零。",
    about_cell: "LSTM 自己保留的内容，只有门能改变它。",
    about_candidate: "如果所有门都打开，将写入的内容。",
    about_reset: "旧状态有多少参与候选：0 表示在此忘记它。",
    about_update: "旧状态有多少被照抄：1 保持原样，0 换成候选。",
    about_input: "候选有多少被写入记忆。",
    about_forget: "旧记忆有多少留下：1 全部保留。",
    about_output: "记忆有多少被展示出来。",
    sort: "单元排序", sort_number: "编号", sort_mean: "平均值", sort_change: "变化", sort_latest: "最强的时刻",
    left_frame: "一帧还剩多少", left_value: "一个数值还剩多少", place_frame: "帧", place_value: "时刻",
    states: "状态", influence: "一个词还剩多少", left_of: "“{word}”还剩多少", place: "词元序号", step: "步",
    left_help:
      "点击一个词元。在该词元处，每条曲线都是 1。差异：没有这个词，状态会偏离多远。导数：这个词稍有变化，状态跟着变多少；" +
      "它是中间每一步导数的连乘，所以会消失或爆炸。余弦：状态与读到这个词时有多相似。",
    difference: "差异", derivative: "导数", cosine: "余弦", log: "对数坐标",
    contexts: "一个上下文向量，还是每步一个", one_context: "上下文向量",
    look_attention: "第一行是概括全部原文的上下文向量；下面是注意力在每一步给解码器的向量。",
    look_every: "这个解码器没有注意力：每一步都得到同一个上下文向量。",
    look_once: "这个解码器没有注意力：上下文向量是它的初始状态，之后需要的一切都得靠状态带着走。",
    attention_ablation: "只靠上下文向量会怎样",
    needed_curve: "每个正确词元的概率",
    needed_help: "每个正确词元的概率：用注意力，以及每一步都改用那一个上下文向量。",
    with_attention: "用注意力", without_attention: "改用上下文向量", likeness: "两种上下文的余弦",
  },
};
