package thrift

// skip reads over a value of a type that nobody asked for. It looks at every byte once at most:
// values of fixed size are not looked at, and counts are compared with the bytes that remain.
func (c *cursor) skip(kind byte, depth int) {
	if depth > maxDepth {
		c.fail(errDepth)
		return
	}
	switch kind {
	case typeString:
		c.string()
	case typeStruct:
		c.skipStruct(depth)
	case typeList, typeSet:
		c.skipList(depth)
	case typeMap:
		c.skipMap(depth)
	default:
		size, _ := typeSize(kind)
		if size == 0 {
			c.fail(errType)
			return
		}
		c.take(size)
	}
}

func (c *cursor) skipStruct(depth int) {
	for f := c.field(); f != 0; f = c.field() {
		c.skip(byte(f), depth+1)
	}
}

func (c *cursor) skipList(depth int) {
	kind := c.byte()
	size, fixed := typeSize(kind)
	count := c.count(max(size, 1))
	if fixed {
		c.take(count * size)
		return
	}
	for i := 0; i < count && c.failed == nil; i++ {
		c.skip(kind, depth+1)
	}
}

func (c *cursor) skipMap(depth int) {
	key, value := c.byte(), c.byte()
	keySize, keyFixed := typeSize(key)
	valueSize, valueFixed := typeSize(value)
	count := c.count(max(keySize+valueSize, 1))
	if keyFixed && valueFixed {
		c.take(count * (keySize + valueSize))
		return
	}
	for i := 0; i < count && c.failed == nil; i++ {
		c.skip(key, depth+1)
		c.skip(value, depth+1)
	}
}
