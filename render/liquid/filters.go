// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package liquid

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/sprig/v3"
	"github.com/osteele/liquid"
	"github.com/osteele/liquid/filters"
	"github.com/osteele/liquid/values"
	"github.com/osteele/tuesday"
)

// Plural gives templates the functions of Sprig as filters: the piped value is the first argument.
// Where Liquid has a filter of the same name, Liquid's counts here: with Sprig's order of arguments,
// append, join, split and others do nothing useful in a pipe.
var fromSprig = strings.Fields(`
	abbrev abbrevboth add add1 add1f addf adler32sum all any atoi b32dec b32enc b64dec b64enc base biggest buildCustomCert camelcase cat chunk
	clean coalesce contains decryptAES deepCopy deepEqual derivePassword dict dig dir div divf duration empty ext fail float64 fromJson get has
	hasKey hasPrefix hasSuffix initial initials int int64 isAbs kebabcase kindIs kindOf list lower max maxf merge mergeOverwrite min minf mod mul
	mulf mustAppend mustChunk mustCompact mustDeepCopy mustFirst mustFromJson mustHas mustInitial mustLast mustMerge mustMergeOverwrite
	mustPrepend mustPush mustRegexFind mustRegexFindAll mustRegexMatch mustRegexReplaceAll mustRegexReplaceAllLiteral mustRegexSplit mustRest
	mustReverse mustSlice mustToJson mustToPrettyJson mustToRawJson mustUniq mustWithout nospace omit osBase osClean osDir osExt osIsAbs pick
	pluck plural push quote regexFind regexFindAll regexMatch regexQuoteMeta regexReplaceAll regexReplaceAllLiteral regexSplit repeat rest semver
	semverCompare seq set sha1sum sha256sum sha512sum snakecase sortAlpha splitList splitn squote sub subf substr swapcase title toDecimal toJson
	toPrettyJson toRawJson toString toStrings trim trimAll trimPrefix trimSuffix trimall trunc tuple typeIs typeIsLike typeOf unset until
	untilStep untitle upper urlJoin urlParse without wrap wrapWith`)

// aliases are names that Plural gives filters in addition.
var aliases = map[string]string{"to_json": "toJson", "from_json": "fromJson", "semver_compare": "semverCompare", "sha26sum": "sha256sum"}

// refused are filters of Plural that would make a result depend on more than its inputs.
var refused = map[string]string{
	"the time or the time zone of the machine": `ago dateInZone dateModify date_in_zone date_modify durationRound htmlDate htmlDateInZone mustDateModify
		mustToDate must_date_modify toDate unixEpoch`,
	"chance": `bcrypt encryptAES genCA genCAWithKey genPrivateKey genSelfSignedCert genSelfSignedCertWithKey genSignedCert genSignedCertWithKey htpasswd
		randAlpha randAlphaNum randAscii randBytes randInt randNumeric shuffle`,
	"the machine": "env expandenv getHostByName",
}

// tolerant are filters that are given missing values on purpose.
var tolerant = strings.Fields("default coalesce empty ternary kindIs kindOf typeIs typeOf typeIsLike all any")

var errMissing = errors.New("the variable has no value; add it to the configuration, or use the filter default before this one")

// dictionary collects filters by name.
type dictionary map[string]any

// AddFilter implements the library's FilterDictionary.
func (d dictionary) AddFilter(name string, filter any) { d[name] = filter }

// registerFilters gives an engine all filters, each within the bounds.
func (r *run) registerFilters(engine *liquid.Engine) {
	standard, functions := dictionary{}, sprig.TxtFuncMap()
	filters.AddStandardFilters(standard)
	maps.Copy(standard, ownFilters())
	for _, name := range fromSprig {
		if standard[name] == nil {
			engine.RegisterFilter(name, r.filter(name, functions[name], true))
		}
	}
	for alias, name := range aliases {
		engine.RegisterFilter(alias, r.filter(name, functions[name], true))
	}
	for why, names := range refused {
		for _, name := range strings.Fields(names) {
			engine.RegisterFilter(name, func(...any) (any, error) {
				return nil, fmt.Errorf("is not offered: its result depends on %s, so equal inputs would make other objects; put the value into the configuration", why)
			})
		}
	}
	for name, filter := range standard {
		engine.RegisterFilter(name, r.filter(name, filter, false))
	}
}

// ownFilters returns the filters that replace the library's, and the ones that Plural has in a form
// of its own.
func ownFilters() dictionary {
	return dictionary{
		"date": formatDate,
		"ternary": func(condition bool, yes, no any) any {
			if condition {
				return yes
			}
			return no
		},
		"indent":  indent,
		"nindent": func(text string, spaces int) string { return "\n" + indent(text, spaces) },
		"keys":    func(named map[string]any) []any { return namesOf(named) },
		"values": func(named map[string]any) []any {
			all := make([]any, 0, len(named))
			for _, name := range slices.Sorted(maps.Keys(named)) {
				all = append(all, named[name])
			}
			return all
		},
	}
}

func namesOf(named map[string]any) []any {
	names := make([]any, 0, len(named))
	for _, name := range slices.Sorted(maps.Keys(named)) {
		names = append(names, name)
	}
	return names
}

func indent(text string, spaces int) string {
	margin := strings.Repeat(" ", max(spaces, 0))
	return margin + strings.ReplaceAll(text, "\n", "\n"+margin)
}

// layouts are the forms in which a text is a date. Without a zone it is in UTC.
var layouts = []string{
	time.RFC3339Nano, time.DateOnly, time.DateTime, "2006-01-02 15:04", "2006-01-02 15:04:05 -0700", time.RFC1123, time.RFC1123Z, time.RFC850, time.ANSIC,
	"January 2, 2006", "Jan 2, 2006", "2 January 2006", "2 Jan 2006",
}

// formatDate formats a date. The library's own filter knows the time, and the machine's zone.
func formatDate(text string, format func(string) string) (string, error) {
	for _, layout := range layouts {
		if date, err := time.ParseInLocation(layout, text, time.UTC); err == nil {
			return tuesday.Strftime(format("%a, %b %d, %y"), date)
		}
	}
	return "", fmt.Errorf("%q is not a date, such as 2026-01-31 or 2026-01-31T12:00:00Z; the time of the render is not known, so that equal inputs make equal objects", text)
}

// filter puts bounds around a filter, and makes missing values errors. Filters of Sprig are given
// copies, because some change their arguments.
func (r *run) filter(name string, function any, isSprig bool) func(args ...any) (any, error) {
	call, isTolerant := reflect.ValueOf(function), slices.Contains(tolerant, name)
	return func(args ...any) (result any, err error) {
		if err := r.bounds.check(); err != nil {
			return nil, err
		}
		defer func() {
			if failure := recover(); failure != nil { // of a filter that does not fit the arguments
				err = fmt.Errorf("%v", failure)
			}
		}()
		for i, arg := range args {
			if arg == nil && !isTolerant {
				return nil, errMissing
			}
			if args[i], err = r.argument(arg, typeOf(call, i), isSprig); err != nil {
				return nil, err
			}
		}
		if err := r.bounds.produce(sizeOfResult(name, args)); err != nil {
			return nil, err
		}
		result, err = values.Call(call, args)
		if err != nil {
			return nil, err
		}
		return r.result(result)
	}
}

// typeOf returns the type of a function's parameter.
func typeOf(function reflect.Value, i int) reflect.Type {
	t := function.Type()
	if t.IsVariadic() && i >= t.NumIn()-1 {
		return t.In(t.NumIn() - 1).Elem()
	}
	if i >= t.NumIn() {
		return reflect.TypeFor[any]()
	}
	return t.In(i)
}

// argument returns the value that a filter is given.
func (r *run) argument(value any, parameter reflect.Type, isSprig bool) (any, error) {
	if span, isRange := value.(values.Range); isRange {
		if span.Len() > maxItems {
			return nil, r.bounds.exceed(maxItemsLimit, "a range has more than %d items", maxItems)
		}
		value = span.AsArray()
	}
	if named, isMap := value.(fields); isMap && !isSprig && parameter.Kind() == reflect.Slice {
		// The library would list the values in any order.
		return named.list(), nil
	}
	if isSprig {
		c := conversion{bounds: &r.bounds}
		return c.plain(value, 0), c.err
	}
	return value, nil
}

// result returns what a filter made, with maps that iterate in order, and counts it.
func (r *run) result(value any) (any, error) {
	if text, isText := value.([]byte); isText {
		value = string(text)
	}
	c := conversion{bounds: &r.bounds}
	ordered := c.ordered(value, 0)
	if c.err == nil {
		c.err = r.bounds.produce(c.bytes)
	}
	return ordered, c.err
}
