// Package sample makes test values in which every field is set.
package sample

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// Time is the value of fields that are times.
var Time = time.Date(2031, 2, 3, 4, 5, 6, 7000, time.UTC)

// Fill sets what v points to, and everything settable in it, to values that are not zero. Lists and maps get one
// element. Fields that are interfaces with methods are not set. It panics for a kind of field that it does not know.
func Fill(v any) { fill(reflect.ValueOf(v).Elem()) }

func fill(v reflect.Value) {
	switch v.Addr().Interface().(type) {
	case *time.Time:
		v.Set(reflect.ValueOf(Time))
		return
	case *json.RawMessage:
		v.SetBytes([]byte(`{"a":1}`))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(time.Minute))
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf("text"))
		}
	default:
		panic(fmt.Sprintf("sample: a field of type %s", v.Type()))
	}
}

// Empty returns the names of struct fields that are zero in every element of list, nested structs included.
func Empty[T any](list []T) (names []string) {
	set := map[string]bool{}
	for i := range list {
		mark("", reflect.ValueOf(&list[i]).Elem(), set)
	}
	for name, is := range set {
		if !is {
			names = append(names, name)
		}
	}
	return names
}

func mark(path string, v reflect.Value, set map[string]bool) {
	if _, is := v.Interface().(time.Time); !is && v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				mark(path+"."+field.Name, v.Field(i), set)
			}
		}
		return
	}
	set[path] = set[path] || !v.IsZero()
}
