// The view layer: preact with templates instead of JSX, and signals for state that several components share.

import { h, render, Fragment } from "./vendor/preact.mjs";
import { useCallback, useEffect, useId, useLayoutEffect, useMemo, useReducer, useRef, useState } from "./vendor/hooks.mjs";
import htm from "./vendor/htm.mjs";
import { computed, effect, signal } from "./vendor/signals-core.mjs";

export const html = htm.bind(h);
export { render, Fragment, useCallback, useEffect, useId, useLayoutEffect, useMemo, useReducer, useRef, useState, computed, effect, signal };

// useSignal returns the value of a signal and renders the component again when it changes.
export function useSignal(s) {
  const [, redraw] = useState(0);
  const seen = s.value;
  useLayoutEffect(() => {
    let last = seen;
    return effect(() => {
      if (s.value === last) return;
      last = s.value;
      redraw((n) => n + 1);
    });
  }, [s]);
  return seen;
}

// useLoad calls load(signal) whenever a key changes, and returns { value, error, loading, again }. The previous value stays
// until the next one has arrived.
export function useLoad(load, keys) {
  const [state, set] = useState({ value: undefined, error: null, loading: true });
  const [turn, again] = useState(0);
  useEffect(() => {
    const ending = new AbortController();
    set((s) => ({ ...s, loading: true }));
    load(ending.signal).then(
      (value) => ending.signal.aborted || set({ value, error: null, loading: false }),
      (error) => ending.signal.aborted || set((s) => ({ value: s.value, error, loading: false })));
    return () => ending.abort();
  }, [...keys, turn]);
  return { ...state, again: useCallback(() => again((n) => n + 1), []) };
}

const polls = new Set();

// pollNow runs what useEvery runs, at once.
export const pollNow = () => polls.forEach((run) => run());

// useEvery calls run each so many milliseconds while the page is visible, and once when it becomes visible.
export function useEvery(ms, run, keys = []) {
  useEffect(() => {
    const tick = () => document.visibilityState === "visible" && run();
    const timer = setInterval(tick, ms);
    document.addEventListener("visibilitychange", tick);
    polls.add(tick);
    return () => {
      clearInterval(timer);
      polls.delete(tick);
      document.removeEventListener("visibilitychange", tick);
    };
  }, keys);
}
