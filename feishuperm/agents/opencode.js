// feishuperm's plugin for opencode, written by `feishuperm install --agents opencode`.
//
// What opencode asks in its terminal is asked on a phone as well: a hook process for each request prints the phone's
// answer, or nothing. The dialog stays open meanwhile, and the first answer counts. Nothing but an answer that a hook
// has printed is ever sent to opencode; whatever else happens, the dialog decides.
import { spawn } from "node:child_process"

const HOOK = "feishuperm-hook"
const ASKED = { "permission.asked": "permission", "question.asked": "question" }
const ANSWERED = ["permission.replied", "question.replied", "question.rejected"]
const MOMENT = 200 // milliseconds in which opencode may answer by itself, as without a terminal

const calls = new Map() // of turns that run: what was given to a tool, by the id of the call
const pending = new Map() // requests: the session and folder of each, and its hook once that runs

function runHook(event, request) {
  return new Promise((resolve) => {
    // In a process group of its own it is told from what a shell that started opencode has started.
    const options = { cwd: request.directory, detached: true, stdio: ["pipe", "pipe", "ignore"] }
    const hook = (request.hook = spawn(HOOK, ["opencode"], options))
    let printed = ""
    hook.stdout.setEncoding("utf8").on("data", (text) => (printed += text))
    hook.stdin.on("error", () => {}) // it ended before it had read everything
    hook.on("error", () => resolve(""))
    hook.on("close", () => resolve(printed))
    hook.stdin.end(JSON.stringify(event))
  })
}

function bodyOf(printed, asked) {
  const answer = JSON.parse(printed)
  // To reject a question would end the turn: the refusal is what the model reads as the answer.
  return asked.questions && !answer.answers ? { answers: asked.questions.map(() => [answer.message]) } : answer
}

async function ask(type, asked, directory, client) {
  const request = { session: asked.sessionID, directory }
  pending.set(asked.id, request)
  await new Promise((resolve) => setTimeout(resolve, MOMENT))
  if (!pending.has(asked.id)) return
  const event = { ...asked, type, directory, call: calls.get(asked.tool?.callID) }
  const printed = await runHook(event, request)
  if (!pending.delete(asked.id) || !printed) return
  const headers = { "Content-Type": "application/json" }
  // The client has no method of its own that takes a message along.
  await client._client.post({ url: `/${ASKED[type]}/${asked.id}/reply`, body: bodyOf(printed, asked), headers })
}

function forget(id) {
  const hook = pending.get(id)?.hook
  pending.delete(id)
  hook?.kill() // its card closes
}

function forgetWhere(key, value) {
  for (const [id, request] of pending) if (request[key] === value) forget(id)
}

export const Feishuperm = async ({ client, directory }) => ({
  // An event holds nothing of some calls, as those of MCP servers.
  "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
    calls.set(callID, { session: sessionID, tool, input: args })
  },
  event: async ({ event: { type, properties } }) => {
    if (type in ASKED) {
      ask(type, properties, directory, client).catch(() => forget(properties.id))
    } else if (ANSWERED.includes(type)) {
      forget(properties.requestID)
    } else if (type === "session.idle") {
      // The turn is over; one that was interrupted has answered nothing.
      forgetWhere("session", properties.sessionID)
      for (const [id, call] of calls) if (call.session === properties.sessionID) calls.delete(id)
    }
  },
  dispose: async () => forgetWhere("directory", directory),
})
