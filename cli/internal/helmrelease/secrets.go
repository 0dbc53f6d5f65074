// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helmrelease

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/leatdev/leat/render"
)

// everyPath stands for every value that looks like a secret.
const everyPath = "*"

// suspicious matches names of values that usually hold secrets, and harmless matches names of
// values that usually name or configure one.
var (
	suspicious = regexp.MustCompile(`(?i)passw(or)?d|passphrase|secret|token|api[-_]?key|access[-_]?key|private[-_]?key|credential|connection[-_]?string|\bdsn\b`)
	harmless   = regexp.MustCompile(`(?i)(name|ref|path|file|mount|enabled|annotations|labels|type|policy|ttl|expiry|expiration|url|issuer|namespace)$|^existing`)
	privateKey = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----`)
)

// SecretPaths returns the paths of texts and numbers among values that look like secrets: those below
// a suspicious name, and private keys. Paths are in the syntax of helm --set, sorted.
func SecretPaths(values map[string]any) []string {
	var found []string
	visit(values, "", false, func(path, text string, _, isSuspicious bool) string {
		if text != "" && (isSuspicious || privateKey.MatchString(text)) {
			found = append(found, path)
		}
		return text
	})
	return found
}

// visit calls do with the path of each text and number, and whether a name on the way is suspicious.
// It returns the values with the texts that do returns in their place. A number stays one if do
// returns its text.
func visit(value any, path string, isSuspicious bool, do func(path, text string, isText, isSuspicious bool) string) any {
	switch value := value.(type) {
	case map[string]any:
		changed := make(map[string]any, len(value))
		for _, name := range slices.Sorted(maps.Keys(value)) {
			below := escapeName(name)
			if path != "" {
				below = path + "." + below
			}
			changed[name] = visit(value[name], below, looksSecret(name, isSuspicious), do)
		}
		return changed
	case []any:
		changed := make([]any, len(value))
		for i, item := range value {
			changed[i] = visit(item, fmt.Sprintf("%s[%d]", path, i), isSuspicious, do)
		}
		return changed
	case string:
		return do(path, value, true, isSuspicious)
	case float64:
		text := strconv.FormatFloat(value, 'f', -1, 64)
		if changed := do(path, text, false, isSuspicious); changed != text {
			return changed
		}
		return value
	default:
		return value
	}
}

// looksSecret reports whether a value below the name looks like a secret. The innermost name
// decides, if it decides anything.
func looksSecret(name string, above bool) bool {
	return !harmless.MatchString(name) && (above || suspicious.MatchString(name))
}

// escapeName writes a name for a path.
func escapeName(name string) string {
	return strings.NewReplacer(`\`, `\\`, `.`, `\.`, `,`, `\,`, `=`, `\=`, `[`, `\[`, `]`, `\]`).Replace(name)
}

// UndecidedError reports values that look like secrets, about which the person has not decided.
type UndecidedError struct{ Paths []string }

// Error implements error.
func (e *UndecidedError) Error() string {
	return "the release's values hold what looks like secrets: " + strings.Join(e.Paths, ", ")
}

// PathError reports a decision about a value that the release does not have.
type PathError struct{ Path string }

// Error implements error.
func (e *PathError) Error() string {
	return fmt.Sprintf("the release's values hold no text or number at %q", e.Path)
}

// Choice is what a person has decided about values, by their paths. "*" stands for every value that
// looks like a secret and that the other list does not name.
type Choice struct {
	// Move are values that become secrets of the service's configuration.
	Move []string
	// Keep are values that stay as they are, although they look like secrets.
	Keep []string
}

// Separate moves the chosen values into secrets of a configuration, by the name of their variable,
// and returns the values with ${NAME} in their place. It returns an *UndecidedError if values remain
// that look like secrets, and a *PathError if a chosen value does not exist.
func (c Choice) Separate(values map[string]any) (rest map[string]any, secrets map[string]string, err error) {
	looking := SecretPaths(values)
	moved := c.paths(c.Move, looking, c.Keep)
	kept := c.paths(c.Keep, looking, c.Move)
	var undecided []string
	for _, path := range looking {
		if !moved[path] && !kept[path] {
			undecided = append(undecided, path)
		}
	}
	if len(undecided) > 0 {
		return nil, nil, &UndecidedError{Paths: undecided}
	}
	secrets = map[string]string{}
	isMoving := len(moved) > 0
	changed, _ := visit(values, "", false, func(path, text string, isText, _ bool) string {
		isMoved := moved[path]
		delete(moved, path)
		delete(kept, path)
		switch {
		case isMoved:
			name := variable(path, secrets)
			secrets[name] = text
			return reference(name, text, isText)
		case isMoving: // the service has a configuration, whose variables are replaced
			return escapeText(text)
		default:
			return text
		}
	}).(map[string]any)
	for _, left := range []map[string]bool{moved, kept} {
		for _, path := range slices.Sorted(maps.Keys(left)) {
			return nil, nil, &PathError{Path: path}
		}
	}
	return changed, secrets, nil
}

// paths returns the chosen paths.
func (c Choice) paths(chosen, looking, others []string) map[string]bool {
	all := map[string]bool{}
	for _, path := range chosen {
		if path != everyPath {
			all[path] = true
			continue
		}
		for _, one := range looking {
			if !slices.Contains(others, one) {
				all[one] = true
			}
		}
	}
	return all
}

// reference returns the text that a variable replaces. A single ${NAME} becomes a number or a boolean
// if the variable spells one; a second expression, which is empty, keeps it a text.
func reference(name, value string, isText bool) string {
	single := "${" + name + "}"
	alone := render.Variables{Values: map[string]string{name: value}}
	expanded, err := alone.Expand("", single)
	if _, staysText := expanded.(string); err == nil && isText && !staysText {
		return single + "${" + name + "_TEXT:-}"
	}
	return single
}

// escapeText returns the text such that ${ stays in a service that has a configuration.
func escapeText(text string) string { return strings.ReplaceAll(text, "${", "$${") }

var notInVariables = regexp.MustCompile(`[^A-Z0-9]+`)

// variable returns a name for the value at a path that no other has.
func variable(path string, taken map[string]string) string {
	base := strings.Trim(notInVariables.ReplaceAllString(strings.ToUpper(path), "_"), "_")
	if base == "" || base[0] >= '0' && base[0] <= '9' {
		base = "V_" + base
	}
	name := base
	for i := 2; ; i++ {
		if _, isTaken := taken[name]; !isTaken {
			return name
		}
		name = fmt.Sprintf("%s_%d", base, i)
	}
}
