/** What stands behind lines of Python, in both languages: few words, where a line does not say itself what it is. */

import { t } from "../strings.js";

const COMMENTS = {
  en: {
    head: "head {number}",
    all_heads: "all heads: (head, query, key)",
    queries_down: "queries from left to right",
    one_token: "where “{token}” looks, by every head",
    token: "head {number}, token {place}",
    no_division: "without the division by √{size}",
    no_mask: "without the mask",
    own_file: "the file of your image",
    own_video: "the file of your video, or the folder with its images",
    repetition_penalty: "what was said before counts {factor} times",
    own_number: "a number of yours",
    gray: "there are no test images: a gray one",
    patch: "patch {place}",
    class_token: "the class token",
    every_patch: "all patches on average",
    no_positions: "it is not told where anything stands",
    word_of_token: "which word each piece belongs to; the end to none",
    word_looks: "when “{word}” was written",
    in_double: "small derivatives drown in the rounding of single precision",
  },
  zh: {
    head: "第 {number} 头",
    all_heads: "所有头：（头，查询，键）",
    queries_down: "查询从左到右",
    one_token: "每个头里“{token}”看向哪里",
    token: "第 {number} 头，第 {place} 个词元",
    no_division: "不除以 √{size}",
    no_mask: "不加掩码",
    own_file: "你自己的图片文件",
    own_video: "你自己的短片文件，或存放各帧图片的文件夹",
    repetition_penalty: "说过的词元的对数概率乘以 {factor}",
    own_number: "你改的数",
    gray: "没有测试图片：用一张灰图",
    patch: "图块 {place}",
    class_token: "类别词元",
    every_patch: "所有图块的平均",
    no_positions: "不告诉它任何位置",
    word_of_token: "每个词元属于哪个词；结束符不属于任何词",
    word_looks: "写“{word}”时",
    in_double: "单精度的舍入会淹没很小的导数",
  },
};

/** A remark in the language spoken now. It is one line, whatever a token in it may be. */
export function comment(key, values = {}) {
  return t(key, values, COMMENTS).replace(/[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g, " ");
}
