/** What the view of positions says. */

export const strings = {
  en: {
    title: "Positions",
    hint: "Put the words into another order: does the answer change, and does it still with positions off?",
    help_text:
      "Attention sees a bag of words: it cannot tell in which order they stand. So a model is told, by vectors that are " +
      "added to the words, by turning queries and keys, or by making far words less attractive. Drag words into another " +
      "order and see what changes; with positions off, an encoder gives every word the same vector wherever it stands.",
    another_order: "The same words in another order",
    order_help: "Drag a token, or carry it with Shift and the arrow keys. The small numbers say where each stood.",
    reverse: "reverse", shuffle: "shuffle", back: "put back", off: "positions off",
    original: "as it stands", reordered: "in this order",
    distances: "How far each word's vector moves",
    distances_help: "Each word in its new place against the same word in its old one, layer by layer: 0 is unmoved; distances " +
      "are shares of a vector's length.",
    unmoved: "Put the words into another order to see what becomes of them.",
    entering: "entering", block: "block {number}",
    position_encoding: "What the model is told", side: "side", source: "source", target: "target", length: "places", head: "head",
    kind_sinusoidal: "sines and cosines", kind_learned: "learned vectors", kind_rotary: "rotary", kind_alibi: "ALiBi", kind_none: "nothing",
    "kind_learned-grid": "learned grid", "kind_sinusoidal-grid": "grid of sines",
    about_sinusoidal: "Each place has a vector of sines and cosines, fast ones at the left and slow ones at the right " +
      "(Vaswani et al. 2017). It exists for places that were never trained.",
    about_learned: "Each place has a vector that was learned like those of words (BERT, GPT-2).",
    about_rotary: "Queries and keys are turned, pair by pair, by an angle that grows with the place (RoPE): here the angles " +
      "from 0 to 2π. Only the distance of two places counts.",
    about_alibi: "What is added to the scores of attention: far keys become less attractive, in each head by another slope (ALiBi).",
    about_none: "This side is told nothing of places. A recurrent network knows the order because it reads in order.",
    "about_learned-grid": "Each patch of the image has a vector that was learned (ViT). That the image has two directions, " +
      "nobody told the model.",
    "about_sinusoidal-grid": "Half of each vector says how far down a patch stands, half how far to the right, both by sines.",
    table_sinusoidal: "Position vectors", table_learned: "Position vectors", table_rotary: "Angles",
      table_alibi: "What is added to the scores",
    "table_learned-grid": "Position vectors", "table_sinusoidal-grid": "Position vectors",
    axes_table: "A row for each place, from the top; a column for each number of its vector. Blue is above zero, orange below.",
    axes_angles: "A row for each place, from the top; a column for each pair of numbers. The stronger the color, the larger the angle.",
    axes_alibi: "A row for each place that asks, a column for each that is looked at. Orange is below zero: less attractive.",
    similarity: "How alike two places look",
    alike_help: "Rows and columns are places. The cosine of their vectors; of rotary positions, what turning leaves of the " +
      "product of two equal vectors.",
    on_grid: "Likeness on the grid", alike_to: "How alike each patch's place is to {place}",
  },
  zh: {
    title: "位置",
    hint: "把词换个顺序：答案变了吗？关闭位置之后呢？",
    help_text:
      "注意力看到的是一袋词：它分不清词的先后。所以要告诉模型位置：给词向量加上位置向量，或旋转查询和键，或让远处的词不那么有吸引力。" +
      "把词拖成另一种顺序，看什么会变；关闭位置后，编码器给每个词的向量与它站在哪里无关。",
    another_order: "同样的词，另一种顺序",
    order_help: "拖动词元，或用 Shift 加方向键搬动它。小数字是它原来的位置。",
    reverse: "倒序", shuffle: "打乱", back: "还原", off: "关闭位置",
    original: "原来的顺序", reordered: "现在的顺序",
    distances: "每个词的向量移动了多远",
    distances_help: "每个词在新位置与在旧位置的向量逐层比较：0 表示没动；距离以向量长度为单位。",
    unmoved: "把词换成另一种顺序，看看会怎样。",
    entering: "输入", block: "第 {number} 块",
    position_encoding: "模型得到的位置信息", side: "端", source: "源端", target: "目标端", length: "位置数", head: "头",
    kind_sinusoidal: "正弦余弦", kind_learned: "学到的向量", kind_rotary: "旋转位置", kind_alibi: "ALiBi", kind_none: "无",
    "kind_learned-grid": "学到的网格", "kind_sinusoidal-grid": "正弦网格",
    about_sinusoidal: "每个位置有一个由正弦和余弦组成的向量，左边变化快，右边变化慢（Vaswani 等，2017）。没训练过的位置也有。",
    about_learned: "每个位置有一个像词向量一样学到的向量（BERT、GPT-2）。",
    about_rotary: "查询和键成对旋转，角度随位置增长（RoPE）：这里是 0 到 2π 的角度。只有两个位置的距离起作用。",
    about_alibi: "加在注意力分数上的数：越远的键越没有吸引力，每个头的斜率不同（ALiBi）。",
    about_none: "这一端没有位置信息。循环网络按顺序读，自然知道先后。",
    "about_learned-grid": "图像的每个图块有一个学到的向量（ViT）。没有人告诉模型图像有两个方向。",
    "about_sinusoidal-grid": "每个向量一半表示图块在第几行，一半表示第几列，都用正弦。",
    table_sinusoidal: "位置向量", table_learned: "位置向量", table_rotary: "角度", table_alibi: "加在分数上的数",
    "table_learned-grid": "位置向量", "table_sinusoidal-grid": "位置向量",
    axes_table: "每行是一个位置（自上而下），每列是向量中的一个数。蓝色大于零，橙色小于零。",
    axes_angles: "每行是一个位置（自上而下），每列是一对数。颜色越强，角度越大。",
    axes_alibi: "每行是发问的位置，每列是被看的位置。橙色小于零：吸引力更小。",
    similarity: "两个位置有多相似", alike_help: "行和列都是位置。向量的余弦；旋转位置则是两个相同向量旋转后乘积还剩多少。",
    on_grid: "网格上的相似度", alike_to: "各图块的位置与 {place} 有多相似",
  },
};
