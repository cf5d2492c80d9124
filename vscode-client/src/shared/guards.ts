// Small checks for data from outside: each takes anything and says whether it has the wanted shape.

export type Guard<T> = (value: unknown) => value is T;
export type Guarded<G> = G extends Guard<infer T> ? T : never;

export const isString = (value: unknown): value is string => typeof value === 'string';

export const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean';

export const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value);

export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export function text(maximum: number): Guard<string> {
  return (value): value is string => typeof value === 'string' && value.length <= maximum;
}

export function oneOf<const T extends readonly (string | number | boolean | null)[]>(...values: T): Guard<T[number]> {
  return (value): value is T[number] => (values as readonly unknown[]).includes(value);
}

export function nullable<T>(guard: Guard<T>): Guard<T | null> {
  return (value): value is T | null => value === null || guard(value);
}

/** For a field that may be missing; on the wire null and missing mean the same. */
export function optional<T>(guard: Guard<T>): Guard<T | null | undefined> {
  return (value): value is T | null | undefined => value === undefined || value === null || guard(value);
}

export function listOf<T>(guard: Guard<T>, maximum = 100_000): Guard<T[]> {
  return (value): value is T[] =>
    Array.isArray(value) && value.length <= maximum && value.every((entry) => guard(entry));
}

type Shape = Readonly<Record<string, Guard<unknown>>>;
type OptionalKeys<S extends Shape> = {
  [K in keyof S]: undefined extends Guarded<S[K]> ? K : never;
}[keyof S];
type Shaped<S extends Shape> = {
  [K in Exclude<keyof S, OptionalKeys<S>>]: Guarded<S[K]>;
} & { [K in OptionalKeys<S>]?: Guarded<S[K]> };

/** An object with at least these fields; what else it holds is not looked at. */
export function record<S extends Shape>(shape: S): Guard<Shaped<S>> {
  const entries = Object.entries(shape);
  return (value): value is Shaped<S> =>
    isRecord(value) && entries.every(([name, guard]) => guard(Object.hasOwn(value, name) ? value[name] : undefined));
}

/** One of several records that tell each other apart by their field `tag`. */
export function tagged<const Tag extends string, const Table extends Readonly<Record<string, Guard<object>>>>(
  tag: Tag,
  table: Table,
): Guard<{ [K in keyof Table & string]: Guarded<Table[K]> & Record<Tag, K> }[keyof Table & string]> {
  type Union = {
    [K in keyof Table & string]: Guarded<Table[K]> & Record<Tag, K>;
  }[keyof Table & string];
  return (value): value is Union => {
    if (!isRecord(value)) {
      return false;
    }
    const name = value[tag];
    if (typeof name !== 'string' || !Object.hasOwn(table, name)) {
      return false;
    }
    return table[name]?.(value) ?? false;
  };
}
