/** The comments in Python code, in both languages, for lines that do not explain themselves. */

import { t } from "../strings.js";

const COMMENTS = {
  en: {
    head: "head {number}",
    all_heads: "all heads: (head, query, key)",
    queries_down: "queries from left to right",
    one_token: "the weights of “{token}” in all heads",
    token: "head {number}, token {position}",
    no_scale: "without the division by √{head_dim}",
    no_mask: "without the mask",
    own_file: "the file of your image",
    own_video: "the file of your video, or the folder with its images",
    own_recording: "the file of your recording",
    repetition_penalty: "multiply the scores of generated tokens by {factor}",
    edited: "edited",
    gray: "no test images: a gray image",
    tone: "no test recordings: a tone",
    patch: "patch {position}",
    class_token: "the class token",
    all_patches: "mean of all patches",
    no_positions: "without position embeddings",
    word_of_token: "the word of each token; None for <eos>",
    caption_token: "the token “{word}”",
    in_double: "float32 is not precise enough for small derivatives",
  },
  zh: {
    head: "第 {number} 头",
    all_heads: "所有头：（头，查询，键）",
    queries_down: "查询从左到右",
    one_token: "每个头里“{token}”看向哪里",
    token: "第 {number} 头，第 {position} 个词元",
    no_scale: "不除以 √{head_dim}",
    no_mask: "不加掩码",
    own_file: "你自己的图片文件",
    own_video: "你自己的视频文件，或存放各帧图片的文件夹",
    own_recording: "你自己的录音文件",
    repetition_penalty: "已生成词元的对数概率乘以 {factor}",
    edited: "改过的数",
    gray: "没有测试图片：用一张灰色图片",
    tone: "没有测试录音：用一个单音",
    patch: "图块 {position}",
    class_token: "类别词元",
    all_patches: "所有图块的平均",
    no_positions: "不用位置编码",
    word_of_token: "每个词元所属的词；<eos> 为 None",
    caption_token: "词元“{word}”",
    in_double: "float32 的精度不足以计算很小的导数",
  },
};

/** A comment in the current language, on one line, for any tokens in it. */
export function comment(key, values = {}) {
  return t(key, values, COMMENTS).replace(/[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g, " ");
}
