// The texts of the page: in the language of the editor where the extension has handed them over, else in English.
import { fill, PAGE_TEXTS, type PageText } from '../shared/pageTexts';
import { isRecord, isString } from '../shared/guards';

const given = read(document.body.dataset['texts']);

function read(json: string | undefined): Record<string, unknown> {
  const value: unknown = JSON.parse(json ?? '{}');
  return isRecord(value) ? value : {};
}

export function text(name: PageText, ...values: readonly (string | number)[]): string {
  const translated = given[name];
  return fill(isString(translated) ? translated : PAGE_TEXTS[name], ...values);
}

/** A number as the reader writes it. */
export function number(value: number): string {
  return value.toLocaleString(document.documentElement.lang || 'en');
}
