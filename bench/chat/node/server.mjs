// A chat as teams build it on Node: streamText of the AI SDK answers, and resumable-stream keeps the answer's stream on Redis for
// those who join it. It serves POST /chat and GET /chat/{id}/stream on the port PORT, with Redis at REDIS_URL.
import { createServer } from 'node:http'
import { convertToModelMessages, pipeUIMessageStreamToResponse, simulateReadableStream, streamText, toUIMessageStream } from 'ai'
import { MockLanguageModelV4 } from 'ai/test'
import { createClient } from 'redis'
import { createResumableStreamContext } from 'resumable-stream/generic'

const client = async () => {
  const url = new URL(process.env.REDIS_URL)
  const redis = createClient(url.protocol === 'unix:' ? { socket: { path: url.pathname } } : { url: url.href })
  redis.on('error', () => {}) // it reconnects by itself
  await redis.connect()
  return redis
}
const redis = await client()
const subscriber = await client()
const adapted = (redis) => ({
  connect: async () => {},
  publish: (channel, message) => redis.publish(channel, message),
  set: (key, value, options) => redis.set(key, value, options),
  get: (key) => redis.get(key),
  incr: (key) => redis.incr(key),
  subscribe: (channel, callback) => redis.subscribe(channel, callback),
  unsubscribe: (channel) => redis.unsubscribe(channel),
})
const streams = createResumableStreamContext({ waitUntil: null, publisher: adapted(redis), subscriber: adapted(subscriber) })

// It says a hundred words, in five seconds when it is asked to speak slowly.
const model = new MockLanguageModelV4({
  doStream: async ({ prompt }) => ({
    stream: simulateReadableStream({
      chunkDelayInMs: prompt.at(-1).content.at(-1).text === 'slowly' ? 50 : null,
      initialDelayInMs: null,
      chunks: [
        { type: 'text-start', id: 't' },
        ...Array.from({ length: 100 }, () => ({ type: 'text-delta', id: 't', delta: 'word ' })),
        { type: 'text-end', id: 't' },
        {
          type: 'finish',
          finishReason: { unified: 'stop' },
          usage: { inputTokens: { total: 1 }, outputTokens: { total: 100 } },
        },
      ],
    }),
  }),
})

async function chat(request, response) {
  let body = ''
  for await (const piece of request) body += piece
  const { id, messages } = JSON.parse(body)
  const result = streamText({ model, messages: await convertToModelMessages(messages) })
  pipeUIMessageStreamToResponse({
    response,
    stream: toUIMessageStream({ stream: result.stream }),
    consumeSseStream: async ({ stream }) => {
      const name = crypto.randomUUID()
      await redis.set('chat:' + id, name) // the one under way
      await streams.createNewResumableStream(name, () => stream)
    },
  })
}

async function join(id, response) {
  const name = await redis.get('chat:' + id)
  const stream = name && (await streams.resumeExistingStream(name))
  if (!stream) return response.writeHead(204).end()
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const reader = stream.getReader()
  response.on('close', () => reader.cancel().catch(() => {}))
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    if (!response.write(piece.value)) await new Promise((resume) => response.once('drain', resume).once('close', resume))
  }
  response.end()
}

createServer((request, response) => {
  const [, id] = /^\/chat\/([^/]+)\/stream$/.exec(request.url) ?? []
  const answer = id ? join(id, response) : chat(request, response)
  answer.catch(() => response.destroy()) // as where the process that answered has died
}).listen(process.env.PORT, '127.0.0.1', () => console.log('ready'))
