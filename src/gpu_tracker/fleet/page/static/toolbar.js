// The form in which filters are chosen, and the address in which they stand so that a view can be shared.

import { setAttribute, setChildren, setText } from './elements.js';
import { cleared, EVERYTHING, fromHash, toHash } from './filters.js';
import { printable } from './words.js';

const CHECKED = ['free', 'reversed'];
const CHOSEN = { group: 'groups', model: 'models', user: 'users' };
const PAUSE = 120; // milliseconds after a letter was typed

export class Toolbar {
  filters = EVERYTHING;
  #form;
  #changed;
  #typing = null;
  #isCompact = false;
  #more;

  /** @param changed is called with nothing whenever the filters have become others. */
  constructor(form, changed) {
    this.#form = form;
    this.#changed = changed;
    form.addEventListener('submit', (event) => event.preventDefault());
    form.addEventListener('change', () => this.#read());
    form.addEventListener('input', () => {
      clearTimeout(this.#typing);
      this.#typing = setTimeout(() => this.#read(), PAUSE);
    });
    this.#more = form.querySelector('.more-button');
    this.#more.addEventListener('click', () => this.#unfold(this.#more.getAttribute('aria-expanded') !== 'true'));
    form.querySelector('.everything').addEventListener('click', () => this.clear());
    addEventListener('hashchange', () => this.#readAddress());
    addEventListener('keydown', (event) => this.#key(event));
    this.#readAddress();
  }

  /** Show everything again. */
  clear() {
    this.#take(cleared(this.filters));
    this.#show();
    this.#form.elements.text.focus();
  }

  /** Take a choice that is made elsewhere on the page. */
  choose(choice) {
    this.#take({ ...this.filters, ...choice });
  }

  /** Show which layout is in use: the one that was chosen, else the one that suits the fleet. */
  layoutIs(isCompact) {
    this.#isCompact = isCompact;
    this.#form.elements.compact.checked = isCompact;
  }

  /** @param found `{groups, models, users}`, what there is to choose from. */
  offer(found) {
    for (const [name, list] of Object.entries(CHOSEN)) {
      const select = this.#form.elements[name];
      const wanted = this.filters[name];
      const values = wanted === '' || found[list].includes(wanted) ? found[list] : [...found[list], wanted];
      const present = new Map([...select.options].map((option) => [option.value, option]));
      setChildren(select, [present.get(''), ...values.map((value) => present.get(value) ?? new Option(printable(value, 80), value))]);
      if (select.value !== wanted) select.value = wanted;
      select.closest('label').hidden = name === 'group' && values.length === 0;
    }
  }

  /** Tell how much of the fleet is shown. */
  tell(text) {
    setText(this.#form.querySelector('output'), text);
  }

  #readAddress() {
    this.filters = fromHash(location.hash);
    this.#show();
    this.#changed();
  }

  #read() {
    clearTimeout(this.#typing);
    const { elements } = this.#form;
    const read = { ...this.filters, text: elements.text.value, sort: elements.sort.value };
    if (elements.compact.checked !== this.#isCompact) read.compact = elements.compact.checked;
    for (const name of CHECKED) read[name] = elements[name].checked;
    for (const name of Object.keys(CHOSEN)) read[name] = elements[name].value;
    this.#take(read);
  }

  #take(filters) {
    const hash = toHash(filters);
    if (hash === toHash(this.filters)) return;
    this.filters = filters;
    history.replaceState(null, '', hash ? `#${hash}` : location.pathname + location.search);
    this.#showClearing();
    this.#changed();
  }

  #show() {
    const { elements } = this.#form;
    elements.text.value = this.filters.text;
    elements.sort.value = this.filters.sort;
    for (const name of CHECKED) elements[name].checked = this.filters[name];
    for (const name of Object.keys(CHOSEN)) {
      const wanted = this.filters[name];
      const isOffered = [...elements[name].options].some((option) => option.value === wanted);
      if (!isOffered) elements[name].append(new Option(printable(wanted, 80), wanted));
      elements[name].value = wanted;
    }
    this.#showClearing();
  }

  #showClearing() {
    setAttribute(this.#form.querySelector('.everything'), 'hidden', toHash(cleared(this.filters)) === toHash(this.filters) ? '' : null);
    const count = ['group', 'model', 'user', 'free', 'reversed', 'sort'].filter((name) => this.filters[name] !== EVERYTHING[name]).length;
    setText(this.#more.querySelector('.count'), count === 0 ? '' : ` (${count})`);
  }

  /** Show the rest of the form where there is no room for it, or hide it. */
  #unfold(isUnfolded) {
    setAttribute(this.#more, 'aria-expanded', isUnfolded);
    this.#form.classList.toggle('unfolded', isUnfolded);
  }

  #key(event) {
    const search = this.#form.elements.text;
    const isTyping = event.target instanceof Element && event.target.closest('input, select, textarea, dialog[open]');
    if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === 'Escape' && event.target === search && search.value !== '') {
      event.preventDefault();
      search.value = '';
      this.#read();
    }
  }
}
