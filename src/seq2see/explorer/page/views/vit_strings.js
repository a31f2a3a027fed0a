/** What the view of images says. */

export const strings = {
  en: {
    title: "Images",
    hint: "Cover what is looked at most, and see whether the answer changes: looking is not yet using.",
    help_text:
      "A Vision Transformer cuts an image into patches and reads them like the words of a sentence. Point at a patch to " +
      "see where it looks: bright patches are looked at. With nothing pointed at, the class token is shown, from which the " +
      "label is told. “Rollout” follows attention back through all layers; “position” shows which places look alike to " +
      "the model before it has seen anything.\n" +
      "Press a patch to cover it, drag it to another place (keyboard: arrows, Enter, Shift+arrows), and see the answer change. " +
      "A video is shown as a row of its frames, which can be covered and moved as patches can.",
    draw: "draw", name: "called", truth: "truly", own: "your image", own_video: "your video",
    shows: "show", attention: "attention", rollout: "rollout", position: "position", bare: "image only",
    layer: "layer", head: "head", mean: "mean", fusion: "heads by", min: "smallest", max: "largest", discard: "discard",
    class: "class token", every: "all patches on average", patch: "patch {place}",
    pointed: "patch {place} looks at", of_class: "The class token looks at", of_every: "All patches look, on average, at",
    reaches: "What has reached {who} through all layers", like: "How alike the place {place} is to each",
    shuffle: "shuffle patches", shuffle_frames: "shuffle frames", back: "put back", uncover: "uncover all", off: "positions off",
    prediction: "What the model says", original: "as it is", changed: "changed",
    caption: "Point at a word: where did the model look when it wrote it?",
    regions: "Where a word looked", word_looks: "“{word}” looks at",
    unchanged: "Cover or move patches, and the answer to the changed image stands beside.",
    unchanged_video: "Cover or move frames, and the answer to the changed video stands beside.",
    no_attention: "This model has no attention: it is a convolutional network. Patches can still be covered and moved.",
    board: "board to draw on", board_help: "Draw with the mouse; or move with the arrow keys and paint with Space.",
    ink: "color", ink_number: "color {number}", shape_circle: "circle", shape_square: "square", shape_triangle: "triangle",
    shape_cross: "cross", shape_ring: "ring", shape_nothing: "empty",
  },
  zh: {
    title: "图像",
    hint: "遮住最受关注的地方，看答案变不变：看了，不等于用上了。",
    help_text:
      "视觉 Transformer（ViT）把图像切成图块，像读句子里的词一样读它们。指向一个图块，看它关注哪里：越亮的图块越受关注。" +
      "没有指向任何图块时，显示的是类别词元（class token），标签由它得出。“注意力展开（rollout）”把注意力穿过所有层追溯回去；" +
      "“位置”显示模型在看到任何内容之前，觉得哪些位置彼此相似。\n" +
      "点击图块可以遮住它，拖动可以换位置（键盘：方向键、回车、Shift+方向键），看答案怎样变化。短片显示为一排帧，" +
      "每一帧都可以像图块一样遮住和移动。",
    draw: "画图", name: "名称", truth: "正确答案", own: "你的图像", own_video: "你的短片",
    shows: "显示", attention: "注意力", rollout: "注意力展开", position: "位置", bare: "仅图像",
    layer: "层", head: "头", mean: "平均", fusion: "合并各头", min: "取最小", max: "取最大", discard: "舍弃",
    class: "类别词元", every: "所有图块的平均", patch: "图块 {place}",
    pointed: "图块 {place} 关注", of_class: "类别词元关注", of_every: "所有图块平均关注",
    reaches: "经过所有层到达{who}的", like: "位置 {place} 与各处的相似度",
    shuffle: "打乱图块", shuffle_frames: "打乱各帧", back: "还原", uncover: "全部揭开", off: "关闭位置",
    prediction: "模型的回答", original: "原图", changed: "改动后", caption: "指向一个词：模型写它时看了哪里？",
    regions: "写一个词时看了哪里", word_looks: "写“{word}”时关注", unchanged: "遮住或移动图块，改动后的答案会并排显示。",
    unchanged_video: "遮住或移动帧，改动后的答案会并排显示。",
    no_attention: "这个模型没有注意力：它是卷积网络。图块仍然可以遮住和移动。",
    board: "画板", board_help: "用鼠标画；或用方向键移动，空格键落笔。",
    ink: "颜色", ink_number: "颜色 {number}", shape_circle: "圆", shape_square: "方块", shape_triangle: "三角",
    shape_cross: "十字", shape_ring: "圆环", shape_nothing: "空白",
  },
};
