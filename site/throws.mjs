// Lists the errors of a function (`@throws {Name} if …`) below one heading, with links to their classes: a plugin of TypeDoc.
import { Converter, ReflectionKind } from "typedoc";

const text = (content) => ({ kind: "text", text: content });

export function load(app) {
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
    const classes = new Map(project.getReflectionsByKind(ReflectionKind.Class).map((each) => [each.name, each]));
    for (const { comment } of Object.values(project.reflections)) {
      const [first, ...others] = comment?.blockTags.filter(({ tag }) => tag === "@throws") ?? [];
      if (!first) continue;
      first.content = [first, ...others].flatMap(({ typeAnnotation, content }) => {
        const name = /^\{(\w+)\}$/.exec(typeAnnotation ?? "")?.[1] ?? "";
        const target = classes.get(name);
        if (!target) app.logger.warn(`@throws without the class of an error: ${typeAnnotation ?? content[0]?.text ?? ""}`);
        return [text("- "), { kind: "inline-tag", tag: "@link", text: name, target }, text(" "), ...content, text("\n")];
      });
      first.typeAnnotation = undefined;
      comment.blockTags = comment.blockTags.filter((each) => !others.includes(each));
    }
  });
}
