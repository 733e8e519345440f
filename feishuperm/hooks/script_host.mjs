// The child that runs a JavaScript or TypeScript callback; see script_host.py.
import { readFileSync, writeSync } from "node:fs";
import { pathToFileURL } from "node:url";
const path = process.argv[1];
const fd = Number(process.env.FEISHUPERM_RESULT_FD);
delete process.env.FEISHUPERM_RESULT_FD;
const finish = (value) => { writeSync(fd, JSON.stringify(value)); process.exit(0); };
try {
  if (path.endsWith(".ts") && !process.features.typescript)
    throw new Error("TypeScript needs Node 22.18 or newer, this is " + process.version);
  const { input, tool_use_id, context } = JSON.parse(readFileSync(0, "utf8"));
  const module = await import(pathToFileURL(path));
  const exported = module.default;
  const hook = [exported, module.hook, exported?.default, exported?.hook]
    .find((value) => typeof value === "function");
  if (!hook) throw new Error("it exports no function as default or `hook`");
  const signal = new AbortController().signal;
  const output = await hook(input, tool_use_id, { ...context, signal });
  finish({ output: output ?? null });
} catch (error) {
  finish({ error: String(error?.message ?? error) });
}
