// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package argocd

import (
	"regexp"
	"strings"
)

// glob is a part of a pattern that .gitignore does not know.
var glob = regexp.MustCompile(`[{}]`)

// patterns returns a pattern of Argo CD, which may list several in braces, as patterns of .gitignore. isSimple is false if
// it cannot.
func patterns(folder, text string) (found []string, isSimple bool) {
	if text == "" {
		return nil, true
	}
	parts := []string{text}
	if list, isList := strings.CutPrefix(text, "{"); isList && strings.HasSuffix(list, "}") {
		parts = strings.Split(strings.TrimSuffix(list, "}"), ",")
	}
	for _, part := range parts {
		if part = strings.TrimSpace(part); glob.MatchString(part) || part == "" {
			return nil, false
		}
		found = append(found, below(folder)+part)
	}
	return found, true
}

// below returns the pattern of a folder, to which a pattern of what is in it is added.
func below(folder string) string { return "/" + strings.TrimPrefix(escapePattern(folder)+"/", "/") }

// escapePattern returns a path as a pattern of .gitignore that matches only itself.
func escapePattern(text string) string {
	return regexp.MustCompile(`[\\*?\[\]]`).ReplaceAllString(text, `\$0`)
}
