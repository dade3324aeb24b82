// A rule of textlint for sentences of paragraphs, list items and table cells: at most `words` words. Outside of tables, at most `stops` colons and semicolons.
// Inline code counts as one word. The colon of a label at the beginning, such as “Python:”, does not count.

import { StringSource } from "textlint-util-to-string";

const sentences = new Intl.Segmenter("en", { granularity: "sentence" });
const words = new Intl.Segmenter("en", { granularity: "word" });

export default function (context, limits) {
  const { Syntax, RuleError, report, locator } = context;
  const replacer = ({ node, maskValue }) => {
    if (node.type === Syntax.Code) return maskValue("C");
    if (node.type === Syntax.Html || node.type === Syntax.Comment) return maskValue(" ");
    return undefined;
  };

  function check(node) {
    const source = new StringSource(node, { replacer });
    for (const { segment, index } of sentences.segment(source.toString())) {
      const count = [...words.segment(segment)].filter((word) => word.isWordLike).length;
      const stops = (segment.replace(/^\W*[A-Z][\w-]*( [\w()]+){0,2}: /, "").match(/[:;]\s/g) ?? []).length;
      const padding = locator.at(source.originalIndexFromIndex(index) ?? 0);
      if (count > limits.words) {
        report(node, new RuleError(`A sentence of ${count} words; at most ${limits.words}.`, { padding }));
      }
      if (stops > limits.stops && node.type !== Syntax.TableCell) {
        report(node, new RuleError(`A sentence with ${stops} colons and semicolons; at most ${limits.stops}.`, { padding }));
      }
    }
  }
  return { [Syntax.Paragraph]: check, [Syntax.TableCell]: check };
}
