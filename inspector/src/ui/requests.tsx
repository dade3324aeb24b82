/** Requests of the agent and decisions about them: approvals, policies, questions, hooks, tools, files, terminals. */

import type { ComponentChildren, JSX } from "preact";

import { formatDuration } from "../format";
import { isObject, listOf, member, objectOf, printJson, textOf, type Json } from "../json";
import { verdictOf, type Decision, type RequestItem } from "../model/items";
import { KIND_NAMES } from "../model/words";
import { Arguments, Display, repeatsArgument } from "./parts";
import { Block, Visible } from "./text";

const DECIDERS = new Map([
  ["handler", "the handler of the program"],
  ["manual", "the program, with respond()"],
  ["policy", "the policy"],
  ["yolo", "the option yolo"],
  ["default", "the default, as no handler is set"],
  ["handler_failed", "the default, as the handler failed"],
  ["cancelled", "the cancel of the turn"],
  ["sdk", "the SDK"],
]);

export function deciderOf(decision: Decision): string {
  return DECIDERS.get(decision.by) ?? decision.by;
}

const VERDICTS = { approved: "Approved", rejected: "Rejected", answered: "Answered", pending: "No answer" } as const;

export function verdictText(item: RequestItem): string {
  if (item.kind === "policy") {
    const decision = textOf(item.payload, "decision");
    return decision === "deny" ? "Denied" : decision === "allow" ? "Allowed" : decision === "ask" ? "Asks" : "Unknown";
  }
  if (item.kind === "hook")
    return verdictOf(item) === "rejected" ? "Blocked" : verdictOf(item) === "answered" ? "Allowed" : "Running";
  const response = textOf(item.decision?.answer, "response") ?? textOf(item.response, "response");
  if (response === "approve_for_session") return "Approved for the session";
  if (item.kind === "question" && item.decision?.answer === null) return "Dismissed";
  return VERDICTS[verdictOf(item)];
}

function Chip({ item }: { item: RequestItem }): JSX.Element {
  return <span class={`chip ${verdictOf(item)}`}>{verdictText(item)}</span>;
}

/** Who decided, why, and how long it took. */
function Reason({ item }: { item: RequestItem }): JSX.Element {
  const { decision, response } = item;
  const feedback = textOf(decision?.answer, "feedback") ?? textOf(response, "feedback");
  const reason = textOf(decision?.answer, "reason") ?? textOf(response, "reason");
  return (
    <>
      {decision && (
        <span class="by">
          by <Visible text={deciderOf(decision)} />
          {decision.duration !== null && (
            <>
              {" "}
              after <span class="duration">{formatDuration(decision.duration)}</span>
            </>
          )}
        </span>
      )}
      {!decision && item.response !== undefined && item.kind === "approval" && <span class="by">by the agent</span>}
      {decision?.rule !== undefined && (
        <>
          {" "}
          · rule{" "}
          <code>
            <Visible text={decision.rule} />
          </code>
        </>
      )}
      {[feedback, reason].map(
        (each) =>
          each !== undefined &&
          each !== "" && (
            <blockquote class="feedback">
              <Visible text={each} />
            </blockquote>
          ),
      )}
      {decision?.error !== undefined && (
        <p class="problem">
          <Visible text={decision.error} />
        </p>
      )}
    </>
  );
}

function Line({ item, children }: { item: RequestItem; children?: ComponentChildren }): JSX.Element {
  return (
    <p class="verdict">
      <Chip item={item} /> {children}
    </p>
  );
}

interface Props {
  item: RequestItem;
  /** The diffs that are shown elsewhere. */
  skip?: ReadonlySet<string>;
}

function Approval({ item, skip }: Props): JSX.Element {
  const { payload } = item;
  const words = [textOf(payload, "sender"), textOf(payload, "action")].filter(
    (each) => each !== undefined && each !== "",
  );
  const description = textOf(payload, "description") ?? "";
  const id = `${String(item.id)}.approval`;
  return (
    <>
      <Line item={item}>
        <Reason item={item} />
      </Line>
      {words.length > 0 && (
        <p class="muted">
          <Visible text={words.join(", ")} />
        </p>
      )}
      {description !== "" && <Block id={id} text={description} kind="prose" size="short" />}
      <Display
        id={id}
        blocks={listOf(payload, "display").filter((block) => !item.tool || !repeatsArgument(block, item.tool))}
        {...(skip ? { skip } : {})}
      />
    </>
  );
}

function Policy({ item }: Props): JSX.Element {
  const { payload } = item;
  const [rule, source] = [textOf(payload, "rule"), textOf(payload, "source")];
  const [reason, part] = [textOf(payload, "reason"), textOf(payload, "part")];
  const call = objectOf(payload, "tool_call");
  return (
    <>
      <Line item={item}>
        {rule === undefined ? (
          <span class="by">by the default of the policy</span>
        ) : (
          <>
            by the rule{" "}
            <code>
              <Visible text={rule} />
            </code>
          </>
        )}
        {source !== undefined && (
          <span class="muted">
            {" "}
            (<Visible text={source} />)
          </span>
        )}
      </Line>
      {reason !== undefined && reason !== "" && (
        <blockquote class="feedback">
          <Visible text={reason} />
        </blockquote>
      )}
      {part !== undefined && reason?.includes(part) !== true && (
        <Block id={`${String(item.id)}.part`} text={part} kind="terminal" size="short" />
      )}
      {!item.tool && call && (
        <Block
          id={`${String(item.id)}.policy`}
          text={`${textOf(call, "name") ?? ""} ${printJson(member(call, "arguments") ?? null)}`}
          kind="terminal"
          size="short"
        />
      )}
    </>
  );
}

function answerTo(question: string, answer: Json | undefined): string | undefined {
  const found = member(objectOf(answer, "answers") ?? answer, question);
  if (Array.isArray(found)) return found.map((each) => (typeof each === "string" ? each : printJson(each))).join(", ");
  return typeof found === "string" ? found : undefined;
}

function Question({ item }: Props): JSX.Element {
  const answer = item.decision?.answer;
  return (
    <>
      {listOf(item.payload, "questions")
        .slice(0, 50)
        .map((each) => {
          const question = textOf(each, "question") ?? "";
          const given = answerTo(question, answer);
          return (
            <div class="question">
              <p>
                <strong>
                  <Visible text={question} />
                </strong>
              </p>
              <ul>
                {listOf(each, "options")
                  .slice(0, 50)
                  .map((option) => {
                    const [label, description] = [textOf(option, "label") ?? "", textOf(option, "description")];
                    return (
                      <li class={label === given ? "chosen" : ""}>
                        <Visible text={label} />
                        {description !== undefined && description !== "" && (
                          <span class="muted">
                            {" "}
                            – <Visible text={description} />
                          </span>
                        )}
                      </li>
                    );
                  })}
              </ul>
              {given !== undefined && (
                <p class="answer">
                  Answer:{" "}
                  <strong>
                    <Visible text={given} />
                  </strong>
                </p>
              )}
            </div>
          );
        })}
      <Line item={item}>
        <Reason item={item} />
      </Line>
    </>
  );
}

function Hook({ item }: Props): JSX.Element {
  const milliseconds = member(item.response, "duration_ms");
  return (
    <>
      <Line item={item}>
        <Reason item={item} />
        {typeof milliseconds === "number" && (
          <span class="by">
            {" "}
            after <span class="duration">{formatDuration(milliseconds / 1000)}</span>
          </span>
        )}
      </Line>
      {objectOf(item.payload, "input_data") && (
        <Block
          id={`${String(item.id)}.hook`}
          text={printJson(member(item.payload, "input_data") ?? null)}
          kind="terminal"
          size="short"
        />
      )}
    </>
  );
}

function answerText(item: RequestItem): string | undefined {
  const answer = item.decision?.answer ?? item.response;
  if (answer === undefined) return undefined;
  if (typeof answer === "string") return answer;
  const output = textOf(answer, "output") ?? textOf(answer, "content");
  return output ?? printJson(answer);
}

function ProgramRequest({ item }: Props): JSX.Element {
  const { payload } = item;
  const id = String(item.id);
  const given = member(payload, "arguments");
  const input = typeof given === "string" ? given : isObject(given) ? printJson(given) : "";
  const other = Object.fromEntries(
    Object.entries(payload).filter(([name]) => !["id", "name", "arguments"].includes(name)),
  );
  const answer = answerText(item);
  return (
    <>
      {!item.tool && (
        <Arguments id={`${id}.input`} input={item.type === "ToolCallRequest" ? input : printJson(other)} />
      )}
      <Line item={item}>
        <Reason item={item} />
      </Line>
      {!item.tool && answer !== undefined && <Block id={`${id}.answer`} text={answer} kind="terminal" />}
    </>
  );
}

const VIEWS = { approval: Approval, policy: Policy, question: Question, hook: Hook, request: ProgramRequest } as const;

/** A request as an item of its own. */
export function RequestBody(props: Props): JSX.Element {
  const View = VIEWS[props.item.kind];
  return <View {...props} />;
}

/** A request inside of its tool call. */
export function AttachedRequest(props: Props): JSX.Element {
  const name = props.item.kind === "request" ? "Program" : KIND_NAMES[props.item.kind];
  return (
    <section class={`attached ${props.item.kind}`}>
      <h4>{name}</h4>
      <div>
        <RequestBody {...props} />
      </div>
    </section>
  );
}
