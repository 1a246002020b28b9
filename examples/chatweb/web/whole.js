// whole returns a transport for which a response without its last chunk is an error, however its connection ended.
export const whole = (Transport) => class extends Transport {
  processResponseStream(stream) {
    let ended = false;
    return super.processResponseStream(stream).pipeThrough(new TransformStream({
      transform(chunk, controller) {
        ended ||= ["finish", "abort", "error"].includes(chunk.type);
        controller.enqueue(chunk);
      },
      flush() {
        if (!ended) throw new Error("the response ended before its last chunk");
      },
    }));
  }
};
