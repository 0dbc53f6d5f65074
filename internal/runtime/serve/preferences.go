// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"strconv"
	"strings"
)

// Preferences are the elements of an Accept header or of one of its kind, such as Accept-Encoding.
type Preferences []preference

type preference struct {
	name   string // in lower case
	weight float64
}

// PreferencesOf reads the lines of a header. It skips elements with an invalid weight, and ignores
// parameters other than the weight.
func PreferencesOf(lines []string) Preferences {
	var found Preferences
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			name, parameters, _ := strings.Cut(part, ";")
			name = strings.ToLower(strings.TrimSpace(name))
			weight, ok := weightOf(parameters)
			if name != "" && ok {
				found = append(found, preference{name, weight})
			}
		}
	}
	return found
}

// weightOf reads the parameter q, which is 1 where it is missing.
func weightOf(parameters string) (float64, bool) {
	for parameter := range strings.SplitSeq(parameters, ";") {
		key, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(strings.TrimSpace(key), "q") {
			continue
		}
		weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		return weight, err == nil && weight >= 0 && weight <= 1
	}
	return 1, true
}

// Weight returns the weight of the first existing name: the most exact one comes first. Of a name
// that occurs twice the higher weight counts. It returns otherwise if the header has none of them.
func (p Preferences) Weight(otherwise float64, names ...string) float64 {
	for _, name := range names {
		most, found := 0.0, false
		for _, element := range p {
			if element.name == name {
				most, found = max(most, element.weight), true
			}
		}
		if found {
			return most
		}
	}
	return otherwise
}
