package docs

import (
	"fmt"
	"go/build"
	"go/importer"
	"go/token"
	"go/types"
	"strings"
	"testing"
)

// alike are parameters of one type that stand side by side, and why a swap of them does no harm, or is what the original has.
var alike = map[string]string{
	"client.Client.BPop: topic, more":   "topics in order of precedence",
	"client.Client.Delivery: topic, id": "a wrong pair is ErrLeaseLost",
}

// TestSignatures finds functions, methods and fields of function types that take two values of the same type side by side: a swap would
// compile.
func TestSignatures(t *testing.T) {
	build.Default.GOROOT, build.Default.CgoEnabled = strings.TrimSpace(output(t, ".", "go", "env", "GOROOT")), false
	from := importer.ForCompiler(token.NewFileSet(), "source", nil)
	found := map[string]bool{}
	for _, folder := range []string{"client", "client/worker", "client/delayertest", "server", "config", "logger"} {
		pkg, err := from.Import("github.com/mix-basic/delayer/" + folder)
		must(t, err)
		check := func(name string, of types.Type) {
			f, is := of.Underlying().(*types.Signature)
			if !is {
				return
			}
			for i := 1; i < f.Params().Len(); i++ {
				a, b := f.Params().At(i-1), f.Params().At(i)
				second := b.Type()
				if list, is := second.(*types.Slice); is && f.Variadic() && i == f.Params().Len()-1 {
					second = list.Elem()
				}
				if types.Identical(a.Type(), second) {
					found[fmt.Sprintf("%s.%s: %s, %s", folder, name, a.Name(), b.Name())] = true
				}
			}
		}
		for _, name := range pkg.Scope().Names() {
			o := pkg.Scope().Lookup(name)
			if !o.Exported() {
				continue
			}
			if _, is := o.(*types.Var); is {
				t.Errorf("%s.%s is a variable: anybody can assign it", folder, name)
			}
			check(name, o.Type())
			named, is := o.Type().(*types.Named)
			if !is {
				continue
			}
			for method := range named.Methods() {
				if method.Exported() {
					check(name+"."+method.Name(), method.Type())
				}
			}
			if fields, is := named.Underlying().(*types.Struct); is {
				for field := range fields.Fields() {
					if field.Exported() {
						check(name+"."+field.Name(), field.Type())
					}
				}
			}
		}
	}
	for signature := range found {
		if alike[signature] == "" {
			t.Errorf("%s have the same type: a swap compiles", signature)
		}
	}
	for signature := range alike {
		if !found[signature] {
			t.Errorf("%s: there is no such pair", signature)
		}
	}
}
