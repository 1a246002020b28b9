package config

import (
	"reflect"
	"strings"
)

// Key is a key of the file.
type Key struct {
	Path    string // with [] for the items of a list, and NAME for a name that the user chooses
	Doc     string
	Default string
}

// Keys returns every key of the file, in order.
func Keys() []Key { return keys(reflect.TypeFor[Config](), "") }

func keys(t reflect.Type, prefix string) (list []Key) {
	for i := range t.NumField() {
		f := t.Field(i)
		path := prefix + f.Tag.Get("yaml")
		list = append(list, Key{Path: path, Doc: f.Tag.Get("doc"), Default: f.Tag.Get("default")})
		below := f.Type
		switch {
		case below.Kind() == reflect.Pointer:
			below = below.Elem()
		case below.Kind() == reflect.Map:
			below, path = below.Elem(), path+".NAME"
		case below.Kind() == reflect.Slice && below != reflect.TypeFor[JSON]():
			below, path = below.Elem(), path+"[]"
		}
		if below.Kind() == reflect.Struct {
			list = append(list, keys(below, strings.TrimSuffix(path, ".")+".")...)
		}
	}
	return list
}
