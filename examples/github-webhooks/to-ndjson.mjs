// Turns the payload examples of @octokit/webhooks-examples into NDJSON for `perilune publish --ndjson`.
//
// One line an example: the webhook's payload as the task's result. The same package always gives the same
// bytes, so that publishing it again after an interruption reports nothing twice.
//
//   node to-ndjson.mjs [--queue NAME] [--enterprise] > github.ndjson

import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";

const { values: options } = parseArgs({
  options: {
    queue: { type: "string", default: "github" },
    // The examples of GitHub Enterprise Server as well, more than twice as many in all.
    enterprise: { type: "boolean", default: false },
  },
});

const root = dirname(createRequire(import.meta.url).resolve("@octokit/webhooks-examples/package.json"));
const editions = readdirSync(root, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && (entry.name === "api.github.com" || (options.enterprise && entry.name.startsWith("ghes-"))))
  .map((entry) => entry.name)
  .sort();

let lines = 0;
for (const edition of editions) {
  for (const webhook of JSON.parse(readFileSync(join(root, edition, "index.json"), "utf8"))) {
    webhook.examples.forEach((example, index) => {
      // An id is 32 lowercase hexadecimal digits; this one is the example's own for good.
      const task = createHash("sha256").update(`${edition}/${webhook.name}/${index}`).digest("hex").slice(0, 32);
      const line = {
        queue: options.queue,
        task_id: task,
        operation: `github.${webhook.name}`,
        status: "succeeded",
        idempotency_key: `github-${task}`,
        payload: { edition, webhook: webhook.name, example: index },
        result: example,
      };
      process.stdout.write(`${JSON.stringify(line)}\n`);
      lines += 1;
    });
  }
}
process.stderr.write(`${lines} examples of ${editions.join(", ")}\n`);
