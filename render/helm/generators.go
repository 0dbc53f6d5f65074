// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"regexp"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"

	"github.com/leatdev/leat/render"
)

// Charts make passwords and certificates with functions that return something else at each call. A
// chart like that would change its objects at every render. So these functions return what they
// returned before in the same place: in the same template, with the same arguments, at the same
// turn. A place is new when a template or an argument is, and values that are generated elsewhere
// stay.

// generatorNames returns the functions of Helm's templates whose results depend on chance or time.
func generatorNames() []string {
	return []string{
		"randAlphaNum", "randAlpha", "randNumeric", "randAscii", "randBytes", "randInt", "shuffle", "uuidv4",
		"genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey",
		"htpasswd", "bcrypt", "encryptAES", "now", "ago", "durationRound",
	}
}

var generatorWord = regexp.MustCompile(`\b(` + strings.Join(generatorNames(), "|") + `)\b`)

// enterFunc is the template function by which a template names itself before it begins.
const enterFunc = "leatEnterTemplate"

// generators replaces functions of templates. It belongs to one render: templates are executed one
// after the other.
type generators struct {
	before   render.Generated // what was returned in earlier renders
	made     render.Generated // returned in this render
	template string           // that is being executed
	turns    map[string]int   // by template, function and arguments
}

// funcs returns the functions that replace Helm's own.
func (g *generators) funcs() template.FuncMap {
	g.turns = map[string]int{}
	funcs := template.FuncMap{enterFunc: func(name string) string {
		g.template = name
		return ""
	}}
	originals := sprig.TxtFuncMap()
	for _, name := range generatorNames() {
		if original := reflect.ValueOf(originals[name]); original.IsValid() {
			funcs[name] = g.replace(name, original).Interface()
		}
	}
	return funcs
}

// replace returns a function of the same type as the original.
func (g *generators) replace(name string, original reflect.Value) reflect.Value {
	kind := original.Type()
	return reflect.MakeFunc(kind, func(args []reflect.Value) []reflect.Value {
		place := g.place(name, args)
		if known, ok := g.before[place]; ok {
			if result, err := decode(known, kind.Out(0)); err == nil {
				g.made[place] = known
				return results(kind, result)
			}
		}
		returned := call(original, args)
		if last := returned[len(returned)-1]; len(returned) > 1 && !last.IsNil() {
			return returned // an error of the template
		}
		text, err := json.Marshal(returned[0].Interface())
		if err != nil {
			return returned
		}
		result, err := decode(string(text), kind.Out(0))
		if err != nil {
			return returned
		}
		g.made[place] = string(text)
		return results(kind, result) // and not returned: the next render has to write the same text
	})
}

func call(f reflect.Value, args []reflect.Value) []reflect.Value {
	if f.Type().IsVariadic() {
		return f.CallSlice(args)
	}
	return f.Call(args)
}

// results returns what a function of that type returns without an error.
func results(kind reflect.Type, result reflect.Value) []reflect.Value {
	all := []reflect.Value{result}
	for i := 1; i < kind.NumOut(); i++ {
		all = append(all, reflect.Zero(kind.Out(i)))
	}
	return all
}

func decode(text string, kind reflect.Type) (reflect.Value, error) {
	result := reflect.New(kind)
	err := json.Unmarshal([]byte(text), result.Interface())
	return result.Elem(), err
}

// place names a call. Arguments may be secrets, so it holds a sum of them.
func (g *generators) place(name string, args []reflect.Value) string {
	hash := sha256.New()
	for _, arg := range args {
		_, _ = fmt.Fprintf(hash, "%v\x00", arg.Interface()) // a hash never fails
	}
	call := fmt.Sprintf("%s %s %x", g.template, name, hash.Sum(nil)[:8])
	turn := g.turns[call]
	g.turns[call]++
	return fmt.Sprintf("%s %d", call, turn)
}

// mark makes each template of a chart and its dependencies name itself before it begins. Lines stay
// as they are; errors in a template's first line name a later column.
func mark(c *chart.Chart) {
	for i, file := range c.Templates {
		if strings.HasPrefix(path.Base(file.Name), "_") {
			continue
		}
		marked := bytes.Join([][]byte{[]byte("{{ " + enterFunc + " .Template.Name }}"), file.Data}, nil)
		c.Templates[i] = &common.File{Name: file.Name, ModTime: file.ModTime, Data: marked}
	}
	for _, dependency := range c.Dependencies() {
		mark(dependency)
	}
}
