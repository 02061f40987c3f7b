// The live figures, by server-sent events. Tells when they stop coming, and goes on trying.

const SILENCE = 45_000; // milliseconds; the server says something every 15 s at least
const CHECK = 5_000;
const FIRST_WAIT = 1_000;
const LONGEST_WAIT = 15_000;

export class Stream {
  #url;
  #listener;
  #source = null; // null: nobody looks, or the next attempt is waited for
  #isFilled = false;
  #heard = 0;
  #wait = FIRST_WAIT;
  #reopening = null;

  /**
   * @param listener has `fleet(data)`, `hosts(data)`, `lost()`, which is called when no more comes, and `paused()`,
   * which is called when no more is asked for because nobody can see it.
   */
  constructor(url, listener) {
    this.#url = url;
    this.#listener = listener;
  }

  open() {
    this.#connect();
    setInterval(() => this.#check(), CHECK);
    // A browser has six connections to a server for all its pages together: one that nobody sees must not keep any.
    document.addEventListener('visibilitychange', () => this.#goOnIfWanted());
    // A network that is back, or a laptop that wakes up, need not wait for the next attempt.
    addEventListener('online', () => this.#isWanted && this.#connect());
    // Leaving the page is not a loss, and a page that comes back from the browser's cache begins anew.
    addEventListener('pagehide', () => this.#pause());
    addEventListener('pageshow', (event) => event.persisted && this.#goOnIfWanted());
  }

  /** A page that was opened where nobody sees it yet is filled once. */
  get #isWanted() {
    return !document.hidden || !this.#isFilled;
  }

  #goOnIfWanted() {
    if (!this.#isWanted) this.#pause();
    else if (this.#source === null) this.#connect();
  }

  #connect() {
    this.#close();
    this.#heard = performance.now();
    const source = new EventSource(this.#url);
    this.#source = source;
    for (const name of ['fleet', 'hosts']) {
      source.addEventListener(name, (event) => {
        this.#heard = performance.now();
        this.#wait = FIRST_WAIT;
        this.#isFilled = true;
        this.#listener[name](JSON.parse(event.data));
        if (!this.#isWanted) this.#pause();
      });
    }
    source.addEventListener('error', () => {
      this.#listener.lost();
      // The browser tries again by itself, unless it was given an answer that is no stream.
      if (source.readyState === EventSource.CLOSED) this.#connectLater();
    });
  }

  #connectLater() {
    this.#close();
    this.#reopening = setTimeout(() => this.#connect(), this.#wait);
    this.#wait = Math.min(LONGEST_WAIT, 2 * this.#wait);
  }

  #pause() {
    this.#close();
    this.#wait = FIRST_WAIT;
    this.#listener.paused();
  }

  #close() {
    clearTimeout(this.#reopening);
    this.#source?.close();
    this.#source = null;
  }

  #check() {
    if (this.#source === null || performance.now() - this.#heard < SILENCE) return;
    this.#listener.lost();
    this.#connect();
  }
}
