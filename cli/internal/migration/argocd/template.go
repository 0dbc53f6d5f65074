// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package argocd

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/leatdev/leat/cli/internal/migration"
)

var (
	placeholder = regexp.MustCompile(`\{\{-?\s*(.*?)\s*-?\}\}`)
	goField     = regexp.MustCompile(`^\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)$`)
	goIndex     = regexp.MustCompile(`^\(?index\s+\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\s+"([^"]*)"\)?$`)
	simpleField = regexp.MustCompile(`^[A-Za-z0-9_][\w./-]*$`)
)

// substitute returns a template with each placeholder of its texts replaced. resolve gets the keys of a parameter.
func substitute(template map[string]any, isGo bool, resolve func(keys []string) (string, error)) (map[string]any, error) {
	made := make(map[string]any, len(template))
	for _, key := range slices.Sorted(maps.Keys(template)) {
		name, err := text(key, isGo, resolve)
		if err != nil {
			return nil, err
		}
		if made[name], err = substituteIn(template[key], isGo, resolve); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func substituteIn(value any, isGo bool, resolve func(keys []string) (string, error)) (any, error) {
	switch v := value.(type) {
	case string:
		return text(v, isGo, resolve)
	case map[string]any:
		return substitute(v, isGo, resolve)
	case []any:
		made := make([]any, len(v))
		for i, item := range v {
			var err error
			if made[i], err = substituteIn(item, isGo, resolve); err != nil {
				return nil, err
			}
		}
		return made, nil
	default:
		return value, nil
	}
}

// text returns a text with each placeholder replaced. The first one that cannot be is the error, and ends the work.
func text(from string, isGo bool, resolve func(keys []string) (string, error)) (string, error) {
	var failure error
	made := placeholder.ReplaceAllStringFunc(from, func(whole string) string {
		if failure != nil {
			return ""
		}
		expression := placeholder.FindStringSubmatch(whole)[1]
		keys, isParameter := keysOf(expression, isGo)
		if !isParameter {
			failure = fmt.Errorf("its template computes %q; a document has only values", migration.Line(expression))
			return ""
		}
		var value string
		value, failure = resolve(keys)
		return value
	})
	if failure != nil {
		return "", failure
	}
	return made, nil
}

// bounded counts what parameters become: a long one can stand in a template many times.
func (f *fleet) bounded(resolve func(keys []string) (string, error)) func(keys []string) (string, error) {
	return func(keys []string) (string, error) {
		value, err := resolve(keys)
		if f.templated += len(value); err == nil && f.templated > maxTemplated {
			err = fmt.Errorf("its template becomes too long; all of an import may have %d MiB", maxTemplated>>20)
		}
		return value, err
	}
}

// keysOf returns the keys that an expression names, if it is nothing but a parameter.
func keysOf(expression string, isGo bool) (keys []string, isParameter bool) {
	if !isGo {
		for _, prefix := range []string{"metadata.labels.", "metadata.annotations."} {
			if key, isLabel := strings.CutPrefix(expression, prefix); isLabel {
				return append(strings.Split(strings.TrimSuffix(prefix, "."), "."), key), true
			}
		}
		return strings.Split(expression, "."), simpleField.MatchString(expression)
	}
	if m := goField.FindStringSubmatch(expression); m != nil {
		return strings.Split(m[1], "."), true
	}
	if m := goIndex.FindStringSubmatch(expression); m != nil {
		return append(strings.Split(m[1], "."), m[2]), true
	}
	return nil, false
}

// lookUp returns the value of keys in the parameters of an element.
func lookUp(parameters map[string]any, keys []string) (string, error) {
	var value any = parameters
	for _, key := range keys {
		below, isMap := value.(map[string]any)
		if !isMap || below[key] == nil {
			return "", fmt.Errorf("its template uses %s, which an element of the list lacks", migration.Line(strings.Join(keys, ".")))
		}
		value = below[key]
	}
	switch v := value.(type) {
	case string:
		return v, nil
	case bool, float64, int64:
		return fmt.Sprint(v), nil
	default:
		return "", fmt.Errorf("its template uses %s, which is not a text", migration.Line(strings.Join(keys, ".")))
	}
}
