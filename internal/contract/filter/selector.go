// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// OfSelector returns the filter that means the same as a label selector of Kubernetes, such as
// "app=web,tier in (a,b),!canary". prefix is the prefix of the labels, such as "label.".
func OfSelector(prefix, selector string) (string, error) {
	if len(selector) > MaxBytes {
		return "", fmt.Errorf("a selector has at most %d bytes", MaxBytes)
	}
	parsed, err := labels.Parse(selector)
	if err != nil {
		return "", err
	}
	requirements, _ := parsed.Requirements()
	var terms []string
	for _, r := range requirements {
		field := prefix + r.Key()
		switch operator := r.Operator(); operator {
		case selection.Exists:
			terms = append(terms, field+"=*")
		case selection.DoesNotExist:
			terms = append(terms, field+"!=*")
		case selection.Equals, selection.DoubleEquals, selection.In:
			terms = append(terms, field+"="+quotedList(r.ValuesUnsorted()))
		case selection.NotEquals, selection.NotIn:
			terms = append(terms, field+"!="+quotedList(r.ValuesUnsorted()))
		case selection.GreaterThan, selection.LessThan:
			return "", fmt.Errorf("labels have no order: %q is not supported", operator)
		}
	}
	return strings.Join(terms, " "), nil
}

// quotedList returns values as a term lists them.
func quotedList(values []string) string {
	values = slices.Sorted(slices.Values(values))
	for i, v := range values {
		values[i] = Quote(v)
	}
	return strings.Join(values, ",")
}
