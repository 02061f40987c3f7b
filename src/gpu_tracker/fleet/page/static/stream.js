// The live figures, by server-sent events. Tells when they stop coming, and goes on trying.

const SILENCE = 45_000; // milliseconds; the server says something every 15 s at least
const CHECK = 5_000;
const FIRST_WAIT = 1_000;
const LONGEST_WAIT = 15_000;

export class Stream {
  #url;
  #listener;
  #source = null;
  #heard = 0;
  #wait = FIRST_WAIT;
  #reopening = null;

  /** @param listener has `fleet(data)`, `hosts(data)`, and `lost()`, which is called when no more comes. */
  constructor(url, listener) {
    this.#url = url;
    this.#listener = listener;
  }

  open() {
    this.#connect();
    setInterval(() => this.#check(), CHECK);
    // A network that is back, or a laptop that wakes up, need not wait for the next attempt.
    addEventListener('online', () => this.#connect());
    // Leaving the page is not a loss, and a page that comes back from the browser's cache begins anew.
    addEventListener('pagehide', () => this.#source?.close());
    addEventListener('pageshow', (event) => event.persisted && this.#connect());
  }

  #connect() {
    clearTimeout(this.#reopening);
    this.#source?.close();
    this.#heard = performance.now();
    const source = new EventSource(this.#url);
    this.#source = source;
    for (const name of ['fleet', 'hosts']) {
      source.addEventListener(name, (event) => {
        this.#heard = performance.now();
        this.#wait = FIRST_WAIT;
        this.#listener[name](JSON.parse(event.data));
      });
    }
    source.addEventListener('error', () => {
      this.#listener.lost();
      // The browser tries again by itself, unless it was given an answer that is no stream.
      if (source.readyState === EventSource.CLOSED) this.#connectLater();
    });
  }

  #connectLater() {
    clearTimeout(this.#reopening);
    this.#reopening = setTimeout(() => this.#connect(), this.#wait);
    this.#wait = Math.min(LONGEST_WAIT, 2 * this.#wait);
  }

  #check() {
    if (this.#source.readyState !== EventSource.OPEN || performance.now() - this.#heard < SILENCE) return;
    this.#listener.lost();
    this.#connect();
  }
}
