/** The texts of the view "Recurrent". */

export const strings = {
  en: {
    title: "Recurrent",
    hint: "Click the first token to see how soon its influence on the state vanishes: the problem that attention solves.",
    help_text:
      "A recurrent network processes one token after another and updates a hidden state: each row is one unit of the state, " +
      "each column a token. Gates control which parts are kept and which are written. Click a token to see its influence on " +
      "the later states. A decoder without attention receives the source only as one context vector; below, this vector is " +
      "compared with the context vectors of attention at each step.",
    examples: "examples", own_output: "empty: the model's own output",
    side_source: "encoder", side_target: "decoder", layer: "layer", forward: "forward", backward: "backward", cell: "cell", token: "token",
    signal: "signal", signal_hidden: "hidden state h", signal_cell: "cell state c", signal_candidate: "candidate",
    signal_reset: "reset gate r", signal_update: "update gate z", signal_input: "input gate i",
    signal_forget: "forget gate f", signal_output: "output gate o",
    about_hidden: "The output of the cell after each token. Blue: positive, orange: negative.",
    about_cell: "The second state of an LSTM, which only its gates change.",
    about_candidate: "The new state if all gates were open.",
    about_reset: "The fraction of the old state that the candidate uses; 0 ignores the old state.",
    about_update: "The fraction of the old state that is copied: 1 copies the old state, 0 replaces it by the candidate.",
    about_input: "The fraction of the candidate that is written to the cell state.",
    about_forget: "The fraction of the old cell state that is kept: 1 keeps all of it.",
    about_output: "The fraction of the cell state that becomes the output.",
    sort: "sort units by", sort_number: "index", sort_mean: "mean", sort_change: "change", sort_peak: "time of peak",
    influence_frame: "Influence of a frame", influence_value: "Influence of a value", position_frame: "frame", position_value: "time",
    states: "States", influence: "Influence of a token", influence_of: "Influence of “{word}”", position: "position", step: "step",
    influence_help:
      "Click a token. All curves are 1 at the token itself. Difference: the change of the state if the embedding is set to 0. " +
      "Derivative: the gradient of the state with respect to the token, a product of the Jacobians of all steps in between, " +
      "which vanishes or explodes. Cosine: the similarity of the state to the state at the token.",
    difference: "difference", derivative: "derivative", cosine: "cosine", log: "logarithmic",
    contexts: "One context vector, or one per step", one_context: "context vector",
    source_access_attention: "The first row is one context vector for the whole source (the final encoder state); the rows below " +
      "are the context vectors of attention at each step.",
    "source_access_context-vector": "This decoder has no attention: its input at every step contains the same context vector.",
    "source_access_first-state": "This decoder has no attention: the context vector is only its initial state.",
    attention_ablation: "Ablation of attention",
    token_probabilities: "Probabilities of the target tokens",
    ablation_help: "The probability of each target token: with attention, and with the one context vector at every step.",
    with_attention: "with attention", without_attention: "with one context vector", context_similarity: "cosine of both context vectors",
  },
  zh: {
    title: "循环网络",
    hint: "点击第一个词元，看它对状态的影响多快消失：注意力正是为解决这个问题而提出的。",
    help_text:
      "循环网络逐个处理词元，并更新隐藏状态：每一行是状态的一个单元，每一列是一个词元。门控制保留哪些、写入哪些。" +
      "点击一个词元，看它对之后状态的影响。没有注意力的解码器只通过一个上下文向量得到原文；" +
      "下面把这个向量与注意力每一步的上下文向量比较。",
    examples: "例子", own_output: "留空：用模型自己的输出",
    side_source: "编码器", side_target: "解码器", layer: "层", forward: "正向", backward: "反向", cell: "单元", token: "词元",
    signal: "信号", signal_hidden: "隐藏状态 h", signal_cell: "细胞状态 c", signal_candidate: "候选状态", signal_reset: "重置门 r",
    signal_update: "更新门 z", signal_input: "输入门 i", signal_forget: "遗忘门 f", signal_output: "输出门 o",
    about_hidden: "每个词元之后单元的输出。蓝色为正，橙色为负。",
    about_cell: "LSTM 的第二种状态，只由门改变。",
    about_candidate: "所有门都打开时的新状态。",
    about_reset: "候选状态使用旧状态的比例：0 表示不使用旧状态。",
    about_update: "照抄旧状态的比例：1 照抄旧状态，0 换成候选状态。",
    about_input: "候选写入细胞状态的比例。",
    about_forget: "保留旧细胞状态的比例：1 全部保留。",
    about_output: "细胞状态成为输出的比例。",
    sort: "单元排序", sort_number: "编号", sort_mean: "平均值", sort_change: "变化", sort_peak: "峰值的时间步",
    influence_frame: "一帧的影响", influence_value: "一个数值的影响", position_frame: "帧", position_value: "时间步",
    states: "状态", influence: "一个词元的影响", influence_of: "“{word}”的影响", position: "位置", step: "步",
    influence_help:
      "点击一个词元。在该词元处，每条曲线都是 1。差异：把它的嵌入置零后状态的变化。导数：状态对这个词元的梯度，" +
      "是中间每一步雅可比矩阵的连乘，所以会消失或爆炸。余弦：状态与读到这个词元时的状态的相似度。",
    difference: "差异", derivative: "导数", cosine: "余弦", log: "对数坐标",
    contexts: "一个上下文向量，还是每步一个", one_context: "上下文向量",
    source_access_attention: "第一行是整个原文的上下文向量（编码器的最终状态）；下面各行是注意力在每一步的上下文向量。",
    "source_access_context-vector": "这个解码器没有注意力：每一步的输入都包含同一个上下文向量。",
    "source_access_first-state": "这个解码器没有注意力：上下文向量只是它的初始状态。",
    attention_ablation: "去掉注意力的消融实验",
    token_probabilities: "各目标词元的概率",
    ablation_help: "每个目标词元的概率：用注意力，以及每一步都用同一个上下文向量。",
    with_attention: "用注意力", without_attention: "用同一个上下文向量", context_similarity: "两种上下文向量的余弦",
  },
};
